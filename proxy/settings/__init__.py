"""What the operator configures: YAML, read once into frozen models. The only reader of configuration.

fields    every key: its type, its default, its meaning
source    a YAML file with variables in it, as plain data
loading   a file and the command line as settings, or an error in words
doubts    what it says and its author hardly means
keys      which keys there are, for errors and for the README's table
__main__  `python -m proxy.settings` prints that table
"""

from proxy.settings.doubts import doubts
from proxy.settings.fields import (
    ANYONE,
    CLIENT,
    ClientSettings,
    HookSettings,
    Mode,
    ModelSettings,
    Section,
    Settings,
    SummarizerSettings,
    UpstreamSettings,
)
from proxy.settings.keys import table
from proxy.settings.loading import CONFIG_VARIABLE, load, load_store

__all__ = [
    "ANYONE",
    "CLIENT",
    "CONFIG_VARIABLE",
    "ClientSettings",
    "HookSettings",
    "Mode",
    "ModelSettings",
    "Section",
    "Settings",
    "SummarizerSettings",
    "UpstreamSettings",
    "doubts",
    "load",
    "load_store",
    "table",
]
