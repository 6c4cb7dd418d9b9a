"""The notebooks run, say what they say, and are kept small.

After a change that moves their numbers: `python -m tests.test_notebooks` runs them all and writes their outputs anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAPERS = ("000", "001", "002", "003", "004")
# The one cell of a notebook whose figure is kept in the file, so that a reader sees it without running anything.
FIGURE = "keep-figure"
LARGEST = 150_000
TIMEOUT_S = 600


def kernels(folder: Path) -> dict[str, str]:
    """The environment in which the kernel `python3` is this interpreter, whatever else is installed for this user."""
    command = [sys.executable, "-m", "ipykernel", "install", "--prefix", str(folder), "--name", "python3"]
    subprocess.run(command, check=True, capture_output=True)
    own = {name: str(folder / name.lower()) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR")}
    return {"JUPYTER_PATH": str(folder / "share" / "jupyter"), **own}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kernels(tmp_path_factory.mktemp("jupyter")).items():
            patch.setenv(name, value)
        yield


def executed(path: Path) -> NotebookNode:
    """A notebook run from its own folder, as Jupyter runs it; a cell that fails raises with its traceback."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=resources).execute()
    return notebook


def printed(notebook: NotebookNode) -> dict[str, str]:
    """What each cell prints."""
    return {
        cell["id"]: "".join(out["text"] for out in cell["outputs"] if out["output_type"] == "stream")
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    }


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_its_file_shows(path: Path, kernel: None) -> None:
    again = executed(path)
    assert printed(again) == printed(nbformat.read(path, as_version=4)), "moved: see the head of this file"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_uses_the_front_door_only(path: Path) -> None:
    """The five names, a connection's methods, scenarios, and a paper's own functions: inner rooms may move."""
    door = r"tcptrace_lab|tcptrace_lab\.(scenario|scenario_file|models(\.\w+)*)"
    cells = [cell["source"] for cell in nbformat.read(path, as_version=4)["cells"] if cell["cell_type"] == "code"]
    used = re.findall(r"^(?:from|import) (tcptrace_lab\S*)", "\n".join(cells), flags=re.MULTILINE)
    assert used
    assert [name for name in used if not re.fullmatch(door, name)] == []


def test_every_paper_has_its_notebook() -> None:
    assert [path.stem.split("_")[0] for path in NOTEBOOKS] == [*PAPERS, "replay", "tour"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_knows_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < LARGEST
    for place in (str(ROOT), str(Path.home()) + os.sep, "/tmp/"):
        assert place not in text
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(out["output_type"] != "error" for cell in notebook["cells"] for out in cell.get("outputs", []))
    assert sum("image/png" in out.get("data", {}) for cell in notebook["cells"] for out in cell.get("outputs", [])) == 1


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What a cell printed in one piece: where Jupyter cuts it depends on how busy the machine is."""
    whole: list[NotebookNode] = []
    for out in outputs:
        if whole and out["output_type"] == whole[-1]["output_type"] == "stream" and out["name"] == whole[-1]["name"]:
            whole[-1]["text"] += out["text"]
        else:
            whole.append(out)
    return whole


def slim(notebook: NotebookNode) -> NotebookNode:
    """As it is kept: text and one figure; no counts, no times."""
    notebook["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["execution_count"] = None
        tags = cell["metadata"].get("tags", [])
        cell["metadata"] = {"tags": tags} if tags else {}
        kept = []
        for out in joined(cell["outputs"]):
            data = out.get("data", {})
            if "image/png" in data:
                if FIGURE not in tags:
                    continue
                out["data"] = {"image/png": data["image/png"]}
                out["metadata"] = {}
            if out["output_type"] == "execute_result":
                out["execution_count"] = None
            kept.append(out)
        cell["outputs"] = kept
    return notebook


def main() -> None:
    """Run every notebook and write it as it is kept."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(kernels(Path(folder)))
        for path in NOTEBOOKS:
            notebook = slim(executed(path))
            nbformat.write(notebook, path)
            print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
