"""Credentials are found below what announces them: names, heads of tables, kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.credentials import HIDDEN
from proxy.core.redact import redact

HEX = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
UUID = "3f2b8c1d-9a4e-4b7f-8c2d-1e5a6f7b8c9d"

ROWS = {  # what goes between angle quotes
    "next line": f"The password:\n«{HEX}»\nThat is all.",
    "next line, chosen": "Password:\n«hunter2»\n",
    "next but one": f"here is my api key\n\n«{UUID}»\n",
    "fenced": f"The api key for production:\n```\n«{UUID}»\n```",
    "yaml block": f"password: |\n  «{HEX}»\nuser: bob",
    "json": f'{{"password":\n   "«{HEX}»"}}',
    "xml": f"<password>\n  «{HEX}»\n</password>",
    "list": f"api_tokens:\n  - «{HEX}»\nusers:\n  - {UUID}",
    "kubernetes": f"env:\n  - name: DB_PASSWORD\n    value: «{HEX}»\n  - name: ID\n    value: {UUID}",
    "kubernetes, value first": f"env:\n  - value: «{HEX}»\n    name: DB_PASSWORD\n",
    "json, apart": f'{{\n  "key": "X-Api-Key",\n  "type": "text",\n  "value": "«{UUID}»"\n}}',
    "arguments": f"name: API_TOKEN\nvalue: «{UUID}»\nid: {HEX}",
    "plist": f"<key>apiKey</key>\n<string>«{UUID}»</string>",
    "hadoop": f"<name>fs.secret.key</name>\n<value>«{UUID}»</value>",
    "markdown": f"| user | password |\n|---|---|\n| bob | «{HEX}» |\n\n| a | {UUID} |",
    "psql": f" id | api_key\n----+-----\n 1  | «{UUID}»\n(1 row)",
    "csv": f"user,password,id\nbob,«{HEX}»,{UUID}\n",
    "csv, quoted": f'"user","api_key"\n"Smith, Bob","«{UUID}»"\n',
    "tsv": f"user\ttoken\tx\nbob\t«{HEX}»\t1",
    "columns": f"NAME   TOKEN                                  AGE\nweb    «{UUID}»   3d",
    "secret": f"kind: Secret\ndata:\n  admin: «{HEX}»\ntype: Opaque",
    "secret, data first": f"data:\n  admin: «{HEX}»\nkind: Secret\n---\nkind: ConfigMap\ndata:\n  x: {UUID}",
    "secret, one line": f'{{"data":{{"admin":"«{HEX}»"}},"kind":"Secret","uid":"{UUID}"}}',
}

ORDINARY = [
    "password:\n  min_length: 8\n  max: 99",
    "token:\n  type: string1",
    "Password:\nLogin failed 3 times",
    f"Refactor the auth token\n\ncommit {HEX}",
    f"token\nfile: {UUID}",
    f"name: password\nid: {UUID}",
    f"name: primary_key\nvalue: {UUID}",
    "name: DB_PASSWORD\nvalueFrom:\n  secretKeyRef:\n    name: db-secret\n    key: password",
    "| parameter | type |\n|---|---|\n| token | string |",
    "| model | tokens |\n|---|---|\n| gpt4o-mini-2 | 128 |",
    "user,password\nbob,\nalice,null\n",
    "username, password, email\nare needed, see docs, page12",
    f"kind: ConfigMap\ndata:\n  a: {HEX}",
    "| test | pass | fail |\n|---|---|---|\n| unit | 120 | 3 |",
    "suite,pass,fail\nunit,120,3",
    "| GPIO | Pin |\n|---|---|\n| led | 17 |",
    f"all tests pass\n{HEX}",
    f"Commits about the token:\n{HEX}\n{HEX}",
    f"the commit that added the password\n{HEX}",
    "The user decided for auth:\n- OAuth2.1\n- PKCE-S256",
    "Files changed for the password:\n`password_reset2.html`",
    "We need to rotate the API key:\n1. OpenRouterV2",
    f"kind: SecretStore\ndata:\n  a: {HEX}",
]


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_the_secret_goes_and_all_else_stays(case: str) -> None:
    """Ids in the lines around it, and the name that announced it."""
    before, rest = ROWS[case].split("«")
    _, after = rest.split("»")
    assert redact(ROWS[case].replace("«", "").replace("»", "")) == f"{before}{HIDDEN}{after}"


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_no_secret_stays(text: str) -> None:
    """Settings of passwords, references, ids, tables of something else."""
    assert redact(text) == text


def test_every_row_of_a_table() -> None:
    """Until a line that is none."""
    rows = "".join(f"bob{n},{HEX[:-2]}{n}\n" for n in range(10, 60))
    clean = redact(f"user,password\n{rows}\n{rows}")
    assert clean.count(HIDDEN) == 50
    assert clean.endswith(rows)


def test_every_value_of_a_list() -> None:
    """Below a name in the plural."""
    text = f'"passwords": [\n  "{HEX}",\n  "{UUID}"\n]'
    assert redact(text) == f'"passwords": [\n  "{HIDDEN}",\n  "{HIDDEN}"\n]'


@given(st.lists(st.sampled_from([*ROWS.values(), *ORDINARY, "", "- x1y2z3", "|", "value: a1b2", "\ud800"]), max_size=4))
def test_what_was_taken_out_stays_out(parts: list[str]) -> None:
    """Whatever stands below one another, a second look finds nothing that the first left."""
    once = redact("\n".join(parts).replace("«", "").replace("»", ""))
    assert redact(once) == once
    assert once.count("\n") == "\n".join(parts).count("\n")
