"""Notes of what a user said for good."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from proxy.hooks.reflection import CONVERSATIONS_MOST, NOTES_MOST, TOLD_MOST, Reflection, durable

RULE = "Never touch the vendor folder."
TENANT, OTHER = "ab" * 16, "cd" * 16


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def event(*messages: dict[str, Any], tenant: str = TENANT, conversation: str = "01" * 8) -> dict[str, Any]:
    return {"tenant": tenant, "conversation": conversation, "messages": list(messages)}


def lasting(number: int) -> str:
    return f"From now on always send report number {number} to the office in street {number * 7}."


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (RULE, True),
        ("From now on, all answers must be in French.", True),
        ("Ab jetzt nur noch Berichte mit Datum, bitte immer im ISO-Format.", True),
        ("必ず日本語で答えてください。コードのコメントもすべて日本語で。", True),
        ("[Signal Marek 2027-03-05 08:12] Immer mit Umsatzsteuer rechnen.", True),
        ("<rule>Nothing goes out before Tilda has read it, never.</rule>", True),
        ("> Never restart the mixer on a Sunday.", True),
        ("```\nNever merge without asking Tilda first.\n```", True),
        ('{"rule": "Quote prices without VAT, always."}', True),
        ("हमेशा हिंदी में उत्तर दें।", True),
        ("Use metric units", True),
        ("please use Oxford commas", True),
        ("No puns.", True),
        ("Answer in Catalan.", True),
        ("Call me Ulla.", True),
        ("Bitte antworte auf Dänisch.", True),
        ("Réponds en italien, s'il te plaît.", True),
        ("Responde en catalán.", True),
        ("Отвечай на русском.", True),
        ("必ず敬語で答えて。", True),
        ("Use the second one.", False),
        ("use this for now", False),
        ("No, that was wrong.", False),
        ("Write a script for the export.", False),
        ("Run the tests.", False),
        ("Thanks, that looks great!", False),
        ("Should we never touch the vendor folder?", False),
        ("ok", False),
        ("", False),
        ("Always keep it. " + "x" * 500, True),
        ("Always keep it " + "and so on " * 60, False),
    ],
)
def test_what_is_for_good(said: str, kept: bool) -> None:
    """Rules and preferences; no thanks, no questions, no pastes."""
    assert bool(durable([user(said)])) is kept


def test_only_the_user_lays_down_rules() -> None:
    """What a tool's result demands, or the assistant, is none."""
    messages = [{"role": "tool", "content": RULE}, {"role": "assistant", "content": RULE}, user("Go on, please.")]
    assert durable(messages) == []


def test_a_correction_takes_the_place_of_what_it_corrects() -> None:
    """It would be wrong to carry both into another conversation."""
    said = [
        user("The deploy window must always be Tuesday 18:00."),
        user("Actually, the deploy window must now be Thursday 20:00."),
    ]
    assert durable(said) == ["Actually, the deploy window must now be Thursday 20:00."]


@pytest.mark.parametrize("rule", [RULE, "Always use tabs.", "Answer in German."])
@pytest.mark.parametrize("times", [1, 2, 3, 4, 7])
def test_what_is_repeated_is_noted_once(rule: str, times: int) -> None:
    """Whoever says a thing three times means it."""
    alone = [user(rule) for _ in range(times)]
    among = [user(f"Look at shelf {i} again. {rule}" if i < times else f"What is on shelf {i}?") for i in range(12)]
    assert durable(alone) == durable(among) == [rule]


def test_rules_about_two_things_are_both_noted() -> None:
    """However alike they are."""
    said = ["Never send more than 5 mails to subscribers.", "Never send more than 20 mails to colleagues."]
    assert durable([user(each) for each in said]) == said


def test_a_note_has_nothing_around_it() -> None:
    """Who said it where does not matter in another conversation; of a very long rule its beginning is noted."""
    assert durable([user("[Signal Marek 2027-03-05 08:12] Never call before noon.")]) == ["Never call before noon."]
    assert durable([user("[backend] Never log a body.")]) == ["[backend] Never log a body."]  # there alone
    long = f"Never call the supplier without me, {'not even if the manager of the north yard asks for it, ' * 9}please."
    (line,) = durable([user(long)])
    assert line.startswith("Never call the supplier without me, not") and line.endswith(" […]") and len(line) < 220


def test_a_secret_is_not_noted() -> None:
    """Credentials are taken out before anything is written."""
    (line,) = durable([user("Always use the key sk-proj-Zb3dEfGh1jKlMn0pQrStUv for the staging server.")])
    assert "sk-proj" not in line and "staging server" in line
    named = '{"password": "never open 7Gh2kLq9XzTr4b", "rule": "Never call before noon."}'
    assert not any("7Gh2kLq9XzTr4b" in line for line in durable([user(named)]))


def test_another_conversation_of_the_tenant_is_told(tmp_path: Path) -> None:
    """Not the same one, which has it in view or in its summary, and nobody else's."""
    hook = Reflection(str(tmp_path / "notes"))
    assert hook.before_compaction(event()) is None
    hook.after_compaction(event(user(RULE)))
    later = event(conversation="02" * 8)
    said = hook.before_compaction(later)
    assert said is not None and set(said) == {"notes"} and f"\n- {RULE}" in said["notes"]
    assert hook.before_compaction(event()) is None
    assert hook.before_compaction(event(tenant=OTHER, conversation="02" * 8)) is None


def test_the_newest_conversation_is_told_first_and_each_line_once(tmp_path: Path) -> None:
    """Within bounds."""
    hook = Reflection(str(tmp_path))
    for number in range(3):
        hook.after_compaction(event(user(RULE), user(lasting(number)), conversation=f"{number:016x}"))
        os.utime(tmp_path / TENANT / f"{number:016x}.txt", (1_000 + number, 1_000 + number))
    said = hook.before_compaction(event(conversation="ff" * 8))
    assert said is not None
    assert said["notes"].splitlines()[1:] == [f"- {RULE}", *(f"- {lasting(number)}" for number in (2, 1, 0))]


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_files_are_bounded_and_private(tmp_path: Path) -> None:
    """For their owner alone; so many lines, so many files, so much for a summariser."""
    hook = Reflection(str(tmp_path / "notes"))
    for number in range(NOTES_MOST + 5):
        hook.after_compaction(event(user(lasting(number)), conversation="aa" * 8))
    file = tmp_path / "notes" / TENANT / f"{'aa' * 8}.txt"
    lines = file.read_text().splitlines()
    assert lines == [lasting(number) for number in range(5, NOTES_MOST + 5)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    for number in range(CONVERSATIONS_MOST + 3):
        hook.after_compaction(
            event(*(user(lasting(100 * number + i)) for i in range(5)), conversation=f"{number:016x}")
        )
    assert len(list(file.parent.iterdir())) == CONVERSATIONS_MOST
    said = hook.before_compaction(event(conversation="ff" * 8))
    assert said is not None and TOLD_MOST / 2 < len(said["notes"]) <= TOLD_MOST


def test_a_directory_that_cannot_be_had_is_told_at_the_start(tmp_path: Path) -> None:
    """With its name, and not at every event."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file/notes"):
        Reflection(str(tmp_path / "file" / "notes"))
    Reflection(str(tmp_path / "new" / "notes"))
    assert not list((tmp_path / "new" / "notes").iterdir())


@pytest.mark.parametrize(
    ("tenant", "conversation"), [("../../etc", "01" * 8), (TENANT, "../x"), ("", "01" * 8), (TENANT, "A" * 16)]
)
def test_names_are_no_paths(tmp_path: Path, tenant: str, conversation: str) -> None:
    """Whoever sends the event."""
    hook = Reflection(str(tmp_path))
    for tell in (hook.before_compaction, hook.after_compaction):
        with pytest.raises(ValueError, match="hexadecimal"):
            tell(event(user(RULE), tenant=tenant, conversation=conversation))
    assert not list(tmp_path.iterdir())
