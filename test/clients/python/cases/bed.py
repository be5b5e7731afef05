"""The service under test, and the scripted model endpoint behind it.

TestPython of test/integration runs each file test_NAME.py of this directory in the venvs
that its table names for NAME: `go test ./test/integration/api -run 'TestPython/clients/openai'`.
pytest's names of the cases become names of Go's subtests.

To add a case, write a function `def test_what_holds(word):` into the file of its client. `word` is
unique: a prompt with it is found again among the turns of the model endpoint.

- The prompt holds the answer of the model in marks, see Step of package modelserver:
  `f"{word} [[text pa]] [[text ris]]"`.
- A client that writes prompts of its own, or asks several times, takes `script(word, ["call f {}"],
  ["text done"])`: one list of steps for each turn whose input has the word.
- `turns(word)` are the bodies that the model endpoint received; `turns(word, cut=1)` waits until
  the turn was interrupted. A case ends its waits by such an event, never by time.
- A case that disturbs the others, as `kill_worker()` does, has the mark `@alone`.
- Coroutines run with `run`. A skipped case fails.

To add a client, write its name into NAME.in, run the command at the top of NAME.txt (uv is on PyPI),
and add the row to pythonClients in test/integration/api/python_test.go.
"""

import asyncio
import json
import os
import runpy
import urllib.request

import pytest

model = "gpt-test"
# claude is the name of a model of Anthropic, which a pattern of the aliases maps.
claude = "claude-test-5"
base_url = os.environ["OPENAI_BASE_URL"]
api_key = os.environ["OPENAI_API_KEY"]
endpoint = os.environ["BED_ENDPOINT"]

alone = pytest.mark.alone

# run runs a coroutine. All share one event loop, because frameworks keep connections for later calls.
run = asyncio.Runner().run

# A PNG of one pixel.
pixel = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhf"
    "DwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

rome = {"city": "Rome", "population": 2800000}


def run_example():
    """run_example runs the lines to set of the client's page in docs/clients, which print an answer."""
    runpy.run_path(os.environ["BED_EXAMPLE"], run_name="__main__")


def script(word, *answers):
    """script queues the answers to the turns whose input has the word: a list of steps each."""
    _call("POST", endpoint + "/_scripts", [{"word": word, "steps": steps} for steps in answers])


def turns(word, n=0, cut=0):
    """turns returns the bodies of the turns whose input has the word, oldest first, as soon as
    there are n of them, of which `cut` were interrupted. The endpoint fails after 30 s."""
    found = _call("GET", f"{endpoint}/_requests?word={word}&turns={n}&cut={cut}")
    return [r["body"]["raw"] for r in found["requests"]]


def release(gate):
    _call("POST", f"{endpoint}/_gates/{gate}")


def kill_worker():
    """kill_worker kills the worker, and returns when another one runs."""
    _call("POST", os.environ["BED_WORKER"])


def outputs(turn):
    """outputs returns the results of tools that a turn has: the arguments of each call, with its result."""
    calls = {i["call_id"]: i for i in turn["input"] if i["type"] == "function_call"}
    return [
        (json.loads(calls[i["call_id"]]["arguments"]), i["output"])
        for i in turn["input"]
        if i["type"] == "function_call_output"
    ]


def texts(turn):
    """texts returns role and text of the messages of a turn."""
    return [
        (i["role"], "".join(p.get("text", "") for p in i["content"])) for i in turn["input"] if i["type"] == "message"
    ]


def images(turn):
    """images returns the URLs of the images of a turn."""
    parts = (p for i in turn["input"] if i["type"] == "message" for p in i["content"])
    return [p["image_url"] for p in parts if p["type"] == "input_image"]


def _call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=180) as answer:
        return json.loads(answer.read() or "null")
