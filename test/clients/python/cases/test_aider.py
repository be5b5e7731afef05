"""aider, which edits files in a git repository."""

import functools
import os
import subprocess
import threading

import aider.models
import pytest
from aider.main import main
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput

from bed import alone, kill_worker, release, script, texts, turns

# Each start of aider parses the same list of models, which takes seconds.
aider.models.json5.loads = functools.cache(aider.models.json5.loads)

whole = "hello.py\n```python\nprint('hello, Ada')\n```\n"
replaced = "hello.py\n```python\n<<<<<<< SEARCH\nprint('hello')\n=======\nprint('hello, Ada')\n>>>>>>> REPLACE\n```\n"
udiff = "```diff\n--- hello.py\n+++ hello.py\n@@ @@\n-print('hello')\n+print('hello, Ada')\n```\n"


def git(*args):
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True, timeout=30).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    git("init", "-q")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    (tmp_path / "hello.py").write_text("print('hello')\n")
    (tmp_path / ".gitignore").write_text(".aider*\n.cache\n")
    git("add", ".")
    git("commit", "-q", "-m", "begin")
    return tmp_path


def edit(message, *options):
    return main(
        [
            "--config",
            os.environ["BED_EXAMPLE"],
            "--openai-api-key",
            os.environ["OPENAI_API_KEY"],
            "--yes-always",
            "--no-check-update",
            "--no-show-release-notes",
            "--no-gitignore",
            "--no-pretty",
            "--message",
            message,
            *options,
        ],
        input=DummyInput(),
        output=DummyOutput(),
    )


@pytest.mark.parametrize(
    "form, answer, stream",
    [("whole", whole, "--stream"), ("diff", replaced, "--no-stream"), ("udiff", udiff, "--stream")],
    ids=["whole", "diff", "udiff"],
)
def test_edit(repository, word, form, answer, stream):
    """An edit is a commit, whose message the model writes."""
    script(word, [f"text {answer}"])
    script("print('hello, Ada')", ["text feat: greet Ada"])
    assert not edit(f"greet Ada {word}", "hello.py", "--edit-format", form, stream)
    assert (repository / "hello.py").read_text() == "print('hello, Ada')\n"
    assert git("log", "--format=%s").splitlines() == ["feat: greet Ada", "begin"]
    assert any("print('hello')" in text for _, text in texts(turns(word)[0]))


def test_new_file(repository, word):
    script(word, ["text bye.py\n```python\nprint('bye')\n```\n"])
    assert not edit(f"a file bye.py {word}", "--edit-format", "whole", "--no-auto-commits")
    assert (repository / "bye.py").read_text() == "print('bye')\n"


def test_edit_that_does_not_fit(repository, word):
    """aider returns the edit to the model, which then writes one that fits."""
    script(
        word,
        [f"text {replaced.replace(chr(39) + 'hello' + chr(39), chr(39) + 'ciao' + chr(39))}"],
        [f"text {replaced}"],
    )
    assert not edit(f"greet {word}", "hello.py", "--edit-format", "diff", "--no-auto-commits")
    assert (repository / "hello.py").read_text() == "print('hello, Ada')\n"
    assert "SearchReplaceNoExactMatch" in str(turns(word)[1]["input"][-1])


def test_architect(repository, word):
    """One model plans, another one edits."""
    script(word, ["text greet Ada in hello.py: plan " + word], [f"text {whole}"])
    assert not edit(
        f"greet {word}",
        "hello.py",
        "--architect",
        "--auto-accept-architect",
        "--editor-edit-format",
        "editor-whole",
        "--no-auto-commits",
    )
    assert (repository / "hello.py").read_text() == "print('hello, Ada')\n"


def test_history(repository, word):
    script(word, ["text nice"], ["text you are Ada"])
    assert not edit(f"I am Ada {word}", "--chat-mode", "ask")
    assert not edit("and I am?", "--chat-mode", "ask", "--restore-chat-history")
    said = " ".join(text for _, text in texts(turns(word)[1]))
    assert "nice" in said


def test_context_overflow(repository, word, capsys):
    """aider explains the limit of the window, and does not try again."""
    script(word, ["failed context_length_exceeded too long"])
    edit(f"greet {word}", "hello.py", "--no-auto-commits")
    assert "has hit a token limit" in capsys.readouterr().out
    assert len(turns(word)) == 1


def test_retry(repository, word, capsys):
    script(word, ["error 503"], [f"text {whole}"])
    edit(f"greet {word}", "hello.py", "--edit-format", "whole", "--no-auto-commits")
    assert (repository / "hello.py").read_text() == "print('hello, Ada')\n"
    assert len(turns(word)) == 2


def test_unknown_model(repository, capsys):
    edit("x", "--no-auto-commits", "--model", "openai/gpt-none")
    assert "gpt-none" in capsys.readouterr().out


@alone
def test_loss_of_the_worker(repository, word):
    lost = threading.Thread(target=lambda: (turns(word, n=1), kill_worker(), release(word)))
    lost.start()
    script(word, [f"gate {word}", f"text {whole}"], [f"gate {word}", f"text {whole}"])
    edit(f"greet {word}", "hello.py", "--edit-format", "whole", "--no-auto-commits")
    lost.join(60)
    assert (repository / "hello.py").read_text() == "print('hello, Ada')\n"
    assert len(turns(word)) == 2
