"""Credentials are found behind what announces them in their line, and ids are left behind everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.credentials import HIDDEN, folded
from proxy.core.credentials_line import HINTS, Lines
from proxy.core.redact import redact

HEX = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
UUID = "3f2b8c1d-9a4e-4b7f-8c2d-1e5a6f7b8c9d"

LINES = {  # what goes between angle quotes: by shape they are ids, all of them
    "api key, spoken": f"my api key: «{UUID}» please use it",
    "api key, bold": f"- **API key**: `«{UUID}»`",
    "api key, no sign": f"the bot token «{UUID}»",
    "key of a service": f'export OPENAI_KEY="«{UUID}»"',
    "key of a stage": f"STRIPE_KEY_PROD=«{HEX}»",
    "key of a product": f"license_key: «{UUID}»",
    "key in camel case": f'"subscriptionKey": "«{HEX}»"',
    "somebody's key": f"my key: «{UUID}»",
    "part of a key": f"SECRET_KEY_BASE=«{HEX}»",
    "numbered": f"password2=«{HEX}»",
    "id of a secret": f"vault write auth/approle/login secret_id=«{HEX}»",
    "typed": f'const apiToken: string = "«{UUID}»"',
    "escaped thrice": f'\\\\\\"password\\\\\\": \\\\\\"«{HEX}»\\\\\\"',
    "far": f"use this token for the new deploy job there: «{HEX}»",
    "slash": f"the password is «hunter2-alpha/{HEX}» today",
    "quoted with blanks": '"password": "«correct horse battery staple»", "user": "bob"',
    "words": "seed phrase: «apple brave cat dog eagle fox goat hat ink jam kite lion»",
    "passphrase": "passphrase: «correct horse battery staple»",
    "crypto": f"wallet private key «0x{HEX}{HEX}»",
    "pin": "the PIN is «4711»",
    "code": "Your verification code is «482913»",
    "recovery": f"2FA recovery code: «{UUID}»",
    "cookies": f"Cookie: «theme=dark; sid={HEX}; a=b»",
    "cookies of a call": f"get(url, cookies=«{{'sid': '{HEX}'}}»)",
    "cookie of curl": f"curl -b '«sid={HEX}; a=1»' https://h.example.com/x",
    "cookie jar": f".example.com\tTRUE\t/\tFALSE\t0\tsid\t«{HEX}»",
    "any scheme": f"Authorization: «GenieKey {UUID}»",
    "any other scheme": f"authorization: «Splunk {UUID}»",
    "digest": f'Authorization: «Digest username="b", response="{HEX}"»',
    "signed header": f"Authorization: «AWS4-HMAC-SHA256 Credential=x/20200101/eu/s3, SignedHeaders=host, Signature={HEX}»",
    "header of a call": f'request.header("Authorization", "«GenieKey {UUID}»")',
    "header": f"curl -H 'X-Auth-Key: «{HEX}»' https://h.example.com/v2",
    "any key's header": f"Ocp-Apim-Subscription-Key: «{HEX}»",
    "call": 'config.setPassword("«hunter22»")',
    "sql": "CREATE USER bob WITH PASSWORD '«hunter22»'",
    "sql, other": "ALTER USER bob IDENTIFIED BY '«correct»'",
    "flag, quoted": 'deploy --db_password "«hunter»" --force',
    "flag, one dash": "keytool -storepass «changeit» -list",
    "flag, list": '["--password", "«hunter»"]',
    "docker": f"docker login -u bob -p «{HEX}» registry.example.com",
    "sshpass": f"sshpass -p «{HEX}» ssh root@10.0.0.1",
    "redis": f"redis-cli -h r.internal -a «{HEX}» ping",
    "mosquitto": f"mosquitto_pub -p 1883 -u a -P «{HEX}»",
    "ldap": f"ldapsearch -D cn=x -w «{HEX}» -b dc=x",
    "openssl": f"openssl enc -aes-256-cbc -k «{HEX}»",
    "7z": f"7z x -p«{HEX}» a.7z",
    "samba": f"smbclient -U bob%«{HEX}» //h/s",
    "httpie": f"http -a bob:«{HEX}» h.example.com",
    "htpasswd": f"htpasswd -bc .htpasswd bob «{HEX}»",
    "vault": f"vault login «{UUID}»",
    "pipe": f"echo «{HEX}» | docker login --password-stdin",
    "redis.conf": "requirepass «hunter»",
    "wifi": "WIFI:T:WPA;S:net;P:«hunter»;;",
    "crypt": "root:«$2b$12$abcdefghijklmnopqrstuvABCDEFGHIJKLMNOPQRSTUVWXYZ01234»:1:",
    "url with at": f"postgres://«bob:p@{HEX}»@db.internal:5432/x",
    "url with slash": f"postgres://«bob:p/{HEX}»@db.internal:5432/x",
    "url of many hosts": f"mongodb://«u:{HEX}»@h1:1,h2:2/db",
    "url that permits": f"https://example.com/reset-password/«{HEX}»",
    "path that permits": f"GET /invite/«{UUID}» 200",
    "url that permits, query": f"https://example.com/invite?t=«{HEX}»",
    "signed url": f"https://x.blob.example.net/c?sv=1&sig=«{HEX}%3D»&x=1",
    "pair": f'{{"name":"API_TOKEN","value":"«{UUID}»"}}',
    "xml": f"<password>«{HEX}»</password>",
    "xml, attribute": f'<add key="ApiKey" value="«{UUID}»" />',
    "xml, named": f'<string name="api_key">«{UUID}»</string>',
    "row": f"| API key | «{UUID}» |",
    "German": f"das Passwort lautet «{HEX}»",
    "German key": f"API-Schlüssel: «{UUID}»",
    "French": f"Le mot de passe est «{HEX}»",
    "Spanish": f"La contraseña es «{HEX}»",
    "Spanish key": f"clave de api: «{UUID}»",
    "Portuguese": f"a senha é «{HEX}»",
    "Russian": f"пароль — «{HEX}»",
    "Chinese": f"密码是«{HEX}»",
    "Chinese key": f"API密钥：«{UUID}»",  # noqa: RUF001
    "Japanese": f"パスワードは«{HEX}»",
}

ORDINARY = [
    "primary_key: 12",
    "sort_key=name",
    "key: value",
    f"key: {UUID}",
    f"the key: {UUID}",
    f"cache_key={UUID}",
    f"cache key: {UUID}",
    f"foreignKey: {UUID}",
    f"idempotency-key: {UUID}",
    f"public key: {HEX}",
    f"monkey={UUID}",
    "the keyboard a1b2c3",
    "token count: 1234",
    "tokens: 128",
    "max_tokens=700",
    f"tokenizer_revision: {HEX}",
    "the password field",
    "password reset page",
    "the API key is required",
    "API key: see the vault",
    "The access key is stored in the vault.",
    f"fixed the token bug in commit {HEX}",
    f"a token service runs as job: {UUID}",
    f"order_id={UUID}",
    "status_code=200, error code: E1234567",
    "| token | int64 | required |",
    '["password", "token", "email"]',
    "So the signature is: `(text, padding, theme)`.",
    "src/hooks/useAuth2.ts",
    "/usr/share/doc/python3-requests",
    "docker run -p 8080:80 -u 1000:1000 image",
    "docker login -u bob",
    "ssh -p 2222 login@host",
    "mysql -P 3306 -h db",
    "PWD=/home/bob",
    "https://registry.example.com:443/@scope/x1",
    "https://cdn.example.com/npm/vue@3.2/a",
    f"https://example.com/users/{UUID}?page=2",
    "https://example.com/reset-password",
    "const token = getToken(",
    "Unexpected token 'a1' in JSON",
    "spin: 3, pinned: v2",
    "seed: 42",
    "The tests pass: 120, in the first pass: 12 errors.",
    "bypass=foo, compass: north",
    "pin: numpy==1.26.4",
    "password VARCHAR(255), api_key IS NOT NULL",
    "OPENAI_API_KEY is not set",
    "psk: wpa2",
]


@pytest.mark.parametrize("case", LINES, ids=str)
def test_the_secret_goes_and_all_else_stays(case: str) -> None:
    """The name that stood before it tells the reader what was taken out."""
    before, rest = LINES[case].split("«")
    _, after = rest.split("»")
    assert redact(LINES[case].replace("«", "").replace("»", "")) == f"{before}{HIDDEN}{after}"


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_no_secret_stays(text: str) -> None:
    """Keys of tables, counts of tokens, ids, commits, paths, ports and talk of passwords."""
    assert redact(text) == text


def test_of_several_values_none_stays() -> None:
    """A name in the plural holds for all that are listed."""
    assert redact(f"The passwords are {HEX} and {UUID}.") == f"The passwords are {HIDDEN} and {HIDDEN}."
    assert redact(f'"tokens": ["{HEX}", "{UUID}"]') == f'"tokens": ["{HIDDEN}", "{HIDDEN}"]'


def test_credentials_that_stand_together() -> None:
    """User and password behind one name go both."""
    assert redact("credentials: bob / hunter22") == f"credentials: {HIDDEN} / {HIDDEN}"


@pytest.mark.parametrize("case", LINES, ids=str)
def test_a_line_without_hints_holds_nothing(case: str) -> None:
    """What is looked up to spare the patterns work is in every line in which they would find something."""
    line = LINES[case].replace("«", "").replace("»", "")
    rules = Lines(folded(line))
    assert rules.struck(line, folded(line)) == Lines(" ".join(HINTS)).struck(line, folded(line))
    assert rules.hints


@given(st.lists(st.sampled_from([*LINES.values(), *ORDINARY, " ", ":", "=", '"', "\ud800", "\u0130", "ß"]), max_size=4))
def test_what_was_taken_out_stays_out(parts: list[str]) -> None:
    """Whatever stands together in a line, a second look finds nothing that the first left."""
    once = redact("".join(parts))
    assert redact(once) == once
