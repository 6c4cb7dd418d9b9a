"""The package as setup.cfg describes it is the package that lies here."""

import configparser
import re
import subprocess
import sys
import tomllib

from tcptrace_lab._version import __version__
from tests.conftest import ROOT


def listed() -> set[str]:
    """The packages of setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return set(parser["options"]["packages"].split())


def test_setup_cfg_lists_every_package() -> None:
    """A package forgotten there works in an editable install and is missing from the wheel."""
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "tcptrace_lab").rglob("__init__.py")} | {
        ".".join(("tcptrace_lab", *path.parent.relative_to(ROOT).parts))
        for path in (ROOT / "models").rglob("__init__.py")
    }
    assert listed() == found


def test_package_core_and_changelog_have_one_version() -> None:
    """docs/releasing.md, step 1."""
    core = tomllib.loads((ROOT / "core" / "Cargo.toml").read_text(encoding="utf-8"))["package"]["version"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert __version__ == core == newest[1]


def test_command_line_starts_without_the_heavy_libraries() -> None:
    """`analyze --json` is compared with C programs as a whole process: nothing heavy is imported on that path."""
    code = (
        "import sys; from tcptrace_lab.cli import _parser; _parser(['analyze', '--json', 'x.pcap'])"
        ".parse_args(['analyze', '--json', 'x.pcap']); print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"numpy", "pandas", "matplotlib", "rich", "scapy", "pyshark", "pyarrow"}
    assert not heavy & set(run.stdout.split())
