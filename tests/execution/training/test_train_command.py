"""`ane train`: JSON lines, the record and the plot, refusals, sweeps, and starting again when a budget is used up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.killing import ENVIRONMENT
from support.trainings import endless, toml

from openane.cli import main, train
from openane.cli.train_display import Live, bars, text_of
from openane.cli.train_sweep import folder_of
from openane.training.plot import loss_plot
from openane.version import pip_line

Table = dict[str, Any]


def command(tmp_path: Path, table: Table, *more: str) -> list[str]:
    """The command line of a configuration that is written to a file."""
    path = tmp_path / "config.toml"
    path.write_text(toml(table))
    return ["train", str(path), *more]


def quick(folder: Path, **tables: Table) -> Table:
    """A training of a few steps in fp32."""
    table = endless(folder, 2)
    table["training"] = {"epochs": 2, "steps": 5, "batch": 100} | tables.pop("training", {})
    return table | tables


def test_json_lines_end_with_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    assert main(command(tmp_path, quick(tmp_path), "--json", "--output", str(output))) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines].count("step") == 5
    assert 0 <= lines[-1]["test_accuracy"] <= 1
    assert lines[0]["device"] == "reference"
    assert [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()] == lines
    drawn = ElementTree.parse(output / "loss.svg").getroot()
    assert 4 in [each.get("d", "").count("L ") for each in drawn.iter()]  # a line through five losses


def test_plain_text_and_the_device_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = quick(tmp_path, training={"steps": 1, "batch": 20}) | {"engine": {"device": "nothing"}}
    assert main(command(tmp_path, table)) == 1
    assert "no device is called 'nothing'" in capsys.readouterr().err
    assert main(command(tmp_path, table, "--device", "simulator")) == 0
    out = capsys.readouterr().out
    assert "weights by inputs: persistent buffers" in out
    assert ", 0 on the host" in out
    assert "done after 1 steps" in out


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = quick(tmp_path), str(tmp_path / "out")
    assert main(command(tmp_path, table, "--resume")) == 1
    assert "--resume needs --output" in capsys.readouterr().err
    assert main(command(tmp_path, table, "--output", output)) == 0
    assert main(command(tmp_path, table, "--output", output)) == 1
    assert "has checkpoints already; go on with --resume" in capsys.readouterr().err
    assert main(command(tmp_path, table, "--output", output, "--resume")) == 0
    assert main(command(tmp_path, table | {"training": {"batch": 7}}, "--output", output, "--resume")) == 1
    assert "training.batch was 100 and is 7" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "none.toml")]) == 1
    assert "none.toml: No such file" in capsys.readouterr().err


def test_a_resumed_record_has_every_step_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = quick(tmp_path), tmp_path / "out"
    assert main(command(tmp_path, table, "--output", str(output))) == 0
    (output / "checkpoints" / "step-00000005" / "state.json").unlink()
    assert main(command(tmp_path, table, "--output", str(output), "--resume")) == 0
    events = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5]
    assert "passed over: " in capsys.readouterr().out


def test_a_sweep_tries_every_combination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = quick(tmp_path) | {"sweep": {"optimiser.rate": [0.001, 0.01]}}
    assert main(command(tmp_path, table, "--json", "--output", str(tmp_path / "out"))) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["variant"] for row in rows] == ["optimiser.rate=0.001", "optimiser.rate=0.01"]
    assert all("test_accuracy" in row for row in rows)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [row["variant"] for row in rows]
    assert main(command(tmp_path, table)) == 0
    assert "optimiser.rate=0.01" in capsys.readouterr().out


def test_a_variant_that_fails_leaves_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = quick(tmp_path) | {"sweep": {"optimiser.rate": [0.001, 1e30, 0.01]}}
    output = tmp_path / "out"
    for more in ([], ["--resume"]):
        assert main(command(tmp_path, table, "--json", "--output", str(output), *more)) == 1
        told = capsys.readouterr()
        rows = [json.loads(line) for line in told.out.splitlines()]
        assert ["error" in row for row in rows] == [False, True, False]
        assert rows[1]["error"].startswith("step ")
        assert "ane: error: variant optimiser.rate=1e+30: step" in told.err
        assert [(output / f"optimiser.rate={rate}" / "loss.svg").exists() for rate in (0.001, 0.01)] == [True, True]
    assert main(command(tmp_path, table)) == 1
    assert "-" in capsys.readouterr().out.splitlines()[-2].split()


def test_folders_of_variants() -> None:
    assert folder_of("optimiser.rate=0.1,training.seed=3") == "optimiser.rate=0.1,training.seed=3"
    long = [f"model.layers={['linear 128', 'relu'] * 30 + [end]}" for end in ("linear 9", "linear 10")]
    names = [folder_of(name) for name in (*long, "data.file=../a", "data.file=_a", "data.file=.._a", "a=é" * 99)]
    assert len(set(names)) == len(names)
    assert all(len(name.encode()) <= 120 and "/" not in name for name in names)


LIMITED = """
import sys
from openane.devices.macos import memory_model
memory_model.COMPILATIONS = 2
from openane.training.computing import Computing
kept = Computing.reopen
def reopen(self):
    if self._step is not None:
        from openane.errors import BudgetExhausted
        raise BudgetExhausted("compilations", limit=2, used=2, remedy="a new process")
    kept(self)
Computing.reopen = reopen
from openane.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_used_up_process_is_followed_by_another(tmp_path: Path) -> None:
    table = quick(tmp_path, training={"steps": 3, "batch": 16}, engine={
        "device": "macos?runtime=simulated&worker=off", "route": "recompile"}) | {"checkpoints": {"every": 100}}
    line = command(tmp_path, table, "--json", "--output", str(tmp_path / "out"))
    made = subprocess.run([sys.executable, "-c", LIMITED, *line], capture_output=True, text=True, env=ENVIRONMENT,
                          timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    assert "starting again from the checkpoint" in made.stderr
    lines = [json.loads(text) for text in made.stdout.splitlines()]
    assert [each["event"] for each in lines] == ["start", "step", "step", "start", "step", "end"]
    assert [each["step"] for each in lines] == [0, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    output = tmp_path / "out"
    line = command(tmp_path, endless(tmp_path, 1_000_000), "--json", "--output", str(output))
    with subprocess.Popen([sys.executable, "-m", "openane", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=ENVIRONMENT) as made:
        assert made.stdout is not None
        read = [json.loads(made.stdout.readline()) for _ in range(5)]
        made.send_signal(number)
        text, told = made.communicate(timeout=60)
    events = read + [json.loads(each) for each in text.splitlines()]
    last = events[-1]["step"]
    assert made.returncode == 128 + number
    assert "once more stops at once" in told
    assert f"stopped after step {last}; --resume goes on from there" in told
    assert [path.name for path in (output / "checkpoints").iterdir()] == [f"step-{last:08}"]
    assert (output / "loss.svg").exists()


def test_resuming_where_nothing_is_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = quick(tmp_path), str(tmp_path / "out")
    assert main(command(tmp_path, table, "--output", output, "--resume")) == 0
    assert f"there is no checkpoint in {output}: it starts from the beginning" in capsys.readouterr().out
    stated = table | {"schedule": {"kind": "cosine", "warm_up": 2, "lowest": 0.0},
                      "engine": {"device": "reference", "route": "inputs"}}
    assert main(command(tmp_path, stated, "--output", output, "--resume")) == 0, "a default that is stated is the same"
    assert main(command(tmp_path, table | {"optimiser": {"kind": "adam"}}, "--output", output, "--resume")) == 1
    assert "optimiser.kind was 'adamw' and is 'adam'" in capsys.readouterr().err


def test_outputs_that_are_no_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for place, told in (("file", "this is a file, and a folder is needed"), ("file/below", "Not a directory")):
        assert main(command(tmp_path, quick(tmp_path), "--output", str(tmp_path / place))) == 1
        assert told in capsys.readouterr().err


def test_a_mistake_is_named_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for change, words in (({"training": {"epoch": 3}}, "training has no key 'epoch'; did you mean 'epochs'?"),
                          ({"sweep": {"rate": [1]}}, "sweep.'rate' must be"),
                          ({"parallel": {"timeout": True}}, "parallel.timeout must be a number, not bool True")):
        line = command(tmp_path, quick(tmp_path) | change)
        assert main(line) == 1
        assert f"{line[1]}: {words}" in capsys.readouterr().err
    (tmp_path / "c.toml").write_text("engine = 3")
    assert main(["train", str(tmp_path / "c.toml"), "--device", "simulator"]) == 1
    assert "c.toml: engine must be a table ([engine]), not int 3" in capsys.readouterr().err


def test_a_device_without_a_name_is_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = quick(tmp_path, training={"steps": 1, "batch": 20})
    assert main(command(tmp_path, table, "--json", "--device", "")) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["device"] == "simulator"


def test_the_verb_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    assert "mpirun" in capsys.readouterr().out
    assert train.__doc__


@pytest.mark.parametrize("title", ["a $x^2$ & <b>", "\N{CJK UNIFIED IDEOGRAPH-6771}", "\x1b[2J", "\udcff"])
def test_plots_bear_any_titles(title: str) -> None:
    drawn = loss_plot({"training": [(1.0, 2.0), (2.0, 1.0)]}, title)
    shown = [each.text for each in ElementTree.fromstring(drawn).iter()]
    assert title.replace("\x1b", "?").replace("\udcff", "?") in shown
    assert loss_plot({"training": [(1.0, 2.0), (2.0, 1.0)]}, title) == drawn


def test_without_matplotlib_no_training_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("openane.training.plot.find_spec", lambda name: None)
    assert main(command(tmp_path, quick(tmp_path), "--output", str(tmp_path / "out"))) == 1
    told = capsys.readouterr()
    assert pip_line("train") in told.err
    assert "step" not in told.out


def test_plots_bear_any_numbers() -> None:
    for line in ([], [(1.0, 2.0)], [(1.0, float("nan")), (2.0, float("inf"))], [(float(i), 1.0) for i in range(9000)],
                 [(0.0, -3.0), (1.0, 1e9)]):
        ElementTree.fromstring(loss_plot({"a <b>": line, "other": [(1.0, 1.0)]}, "t & t"))
    assert bars([]) == bars([float("nan")]) == ""
    assert len(bars([float(i) for i in range(1000)])) <= 60


STEP = {"event": "step", "step": 3, "loss": 1.0, "rate": 0.1, "norm": 2.0, "scale": 8.0, "seconds": 0.1,
        "engine_share": 0.5, "skipped": True, "reason": "a gradient left fp16",
        "infinities": 0}


def test_without_anywhere_to_print(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = command(tmp_path, quick(tmp_path), "--output", str(tmp_path / "out"))
    monkeypatch.setattr(sys, "stdout", None)
    assert main(line) == 0
    assert (tmp_path / "out" / "loss.svg").exists()


def test_the_live_panel(capsys: pytest.CaptureFixture[str]) -> None:
    display = Live()
    for event in (STEP, {"event": "epoch", "step": 3, "epoch": 1, "loss": 1.0, "skipped": 0,
                          "without_loss": 0, "test_accuracy": 0.5}, STEP):
        display.show(event)
    display.close()
    display.close()
    out = capsys.readouterr().out
    assert "epoch 1  mean loss 1.0000  test accuracy 0.5000" in out
    assert "█" in out


def test_texts_of_events() -> None:
    assert "skipped: a gradient left fp16" in text_of(STEP)[0]
    assert text_of({"event": "restart", "step": 2, "reason": "why"}) == ["restart at step 2: why"]
