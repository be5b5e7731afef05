"""llm, the command line, with its conversations, schemas, tools and completion models."""

import base64
import json
import os
import pathlib

import pytest
from click.testing import CliRunner
from llm.cli import cli

from bed import base_url, images, outputs, pixel, rome, script, texts, turns

models = pathlib.Path(os.environ["BED_EXAMPLE"]).read_text()
unknown = f"""
- {{model_id: unknown, model_name: gpt-none, api_base: "{base_url}", api_key_name: proxy}}
"""
both = pytest.mark.parametrize("name", ["proxy", "proxy-responses"])


@pytest.fixture
def llm(tmp_path, monkeypatch):
    (tmp_path / "extra-openai-models.yaml").write_text(models + unknown)
    (tmp_path / "keys.json").write_text(json.dumps({"proxy": os.environ["OPENAI_API_KEY"]}))
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))

    def call(*args, status=0, **options):
        done = CliRunner().invoke(cli, args, **options)
        assert done.exit_code == status, done.output
        return done.output.strip()

    return call


@both
@pytest.mark.parametrize("stream", [[], ["--no-stream"]], ids=["stream", "whole"])
def test_prompt(llm, word, name, stream):
    assert llm("-m", name, *stream, "-s", "be brief", f"{word} [[text pa]] [[text ris]]") == "paris"
    assert any("be brief" in text for role, text in texts(turns(word)[0]) if role == "developer")


def test_input_of_a_pipe(llm, word):
    assert llm("-m", "proxy", f"{word} [[text short]]", input="a long text") == "short"
    assert "a long text" in texts(turns(word)[0])[-1][1]


@both
def test_conversation(llm, word, name):
    assert llm("-m", name, f"{word} I am Ada [[text nice]]") == "nice"
    assert llm("-c", "and I am? [[text you are Ada]]") == "you are Ada"
    said = [text.split(" [[")[0] for _, text in texts(turns(word)[1])]
    assert said[-3:] == [f"{word} I am Ada", "nice", "and I am?"]


@both
def test_schema(llm, word, name):
    answer = llm("-m", name, "--schema", "city, population int", f"{word} [[text {json.dumps(rome)}]]")
    assert json.loads(answer) == rome
    assert turns(word)[0]["text"]["format"]["type"] == "json_schema"


@both
def test_tools(llm, word, name):
    script(word, ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}'], ["text both sunny"])
    function = 'def get_weather(city: str) -> str:\n    "The weather in a city."\n    return "sunny in " + city'
    assert llm("-m", name, "--functions", function, word).endswith("both sunny")
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "sunny in Paris"), ({"city": "Rome"}, "sunny in Rome")]


@both
def test_image(llm, word, name, tmp_path):
    (tmp_path / "pixel.png").write_bytes(base64.b64decode(pixel.split(",")[1]))
    assert llm("-m", name, "-a", str(tmp_path / "pixel.png"), f"{word} [[text a pixel]]") == "a pixel"
    assert images(turns(word)[0]) == [pixel]


@pytest.mark.parametrize("stream", [[], ["--no-stream"]], ids=["stream", "whole"])
def test_completion(llm, word, stream):
    assert llm("-m", "proxy-completion", *stream, f"{word} [[text once ]] [[text upon]]") == "once upon"


@both
def test_errors(llm, word, name):
    overflow = llm("-m", name, f"{word} [[failed context_length_exceeded too long]]", status=1)
    assert "maximum context length" in overflow
    assert "gpt-none" in llm("-m", "unknown", "x", status=1)
    assert "key" in llm("-m", name, "--key", "sk-wrong", "x", status=1)


@both
def test_stream_fails_in_the_middle(llm, word, name):
    assert "send the request again" in llm("-m", name, f"{word} [[text so far]] [[drop]]", status=1)
