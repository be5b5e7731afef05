"""anthropic, Anthropic's library, with the Messages API."""

import asyncio
import json
import threading

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_tool
from pydantic import BaseModel

import bed
from bed import alone, claude, images, model, outputs, pixel, release, rome, run, run_example, script, texts, turns


class City(BaseModel):
    city: str
    population: int


@beta_tool
def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: where
    """
    return f"sunny in {city}"


weather_tool = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']
image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": pixel.split(",")[1]}}


def client(**options):
    return Anthropic(**{"max_retries": 0, "timeout": 180, **options})


def ask(prompt, **more):
    return {"model": claude, "max_tokens": 1024, "messages": [{"role": "user", "content": prompt}], **more}


def create(prompt, **more):
    return client().messages.create(**ask(prompt, **more))


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def test_message(word):
    m = create(f"{word} [[text pa]] [[text ris 🙂]] [[usage 21 8 13 5]]", system="be brief", extra_body={"top_k": 5})
    assert text(m) == "paris 🙂"
    assert (m.role, m.model, m.stop_reason, m.stop_sequence) == ("assistant", claude, "end_turn", None)
    assert (m.usage.input_tokens, m.usage.cache_read_input_tokens, m.usage.output_tokens) == (13, 8, 13)
    assert m.usage.cache_creation_input_tokens == 0
    assert m._request_id
    assert "be brief" in str(turns(word)[0])


def test_turns(word):
    messages = [
        {"role": "user", "content": f"{word} one"},
        {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": "three"},
    ]
    create("", messages=messages)
    assert texts(turns(word)[0])[-3:] == [("user", f"{word} one"), ("assistant", "two"), ("user", "three")]


def test_stream(word):
    steps = "[[reasoning be]] [[reasoning cause]] [[text one ]] [[text two]] [[usage 21 8 13 5]]"
    with client().messages.stream(**ask(f"{word} {steps}", thinking={"type": "adaptive"})) as stream:
        events = list(stream)
    assert [e.text for e in events if e.type == "text"] == ["one ", "two"]
    assert [e.thinking for e in events if e.type == "thinking"] == ["be", "cause"]
    m = stream.get_final_message()
    assert [block.type for block in m.content] == ["thinking", "text"]
    assert m.content[0].thinking == "because" and m.content[0].signature
    assert (m.stop_reason, m.usage.input_tokens, m.usage.output_tokens) == ("end_turn", 13, 13)
    assert (events[0].type, events[-1].type) == ("message_start", "message_stop")


def test_stream_arrives_before_its_end(word):
    steps = f"{word} [[text early]] [[gate {word}]] [[text late]]"
    with client().messages.stream(**ask(steps)) as stream:
        seen = ""
        for delta in stream.text_stream:
            seen += delta
            if seen == "early":
                release(word)
    assert seen == "earlylate"


def test_async(word):
    async def answers():
        async with AsyncAnthropic(max_retries=0) as c:
            whole = [c.messages.create(**ask(f"{word} [[text {n}]]")) for n in range(4)]
            async with c.messages.stream(**ask(f"{word} [[text one ]] [[text two]]")) as stream:
                deltas = [delta async for delta in stream.text_stream]
            return [text(m) for m in await asyncio.gather(*whole)], deltas

    assert run(answers()) == (["0", "1", "2", "3"], ["one ", "two"])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_tools(word, stream):
    """The thinking comes back with the results, one of which has an image and one an error."""
    script(word, ["reasoning hm", *two_calls], ["text sunny"])
    more = {"tools": [weather_tool], "thinking": {"type": "enabled", "budget_tokens": 1024}}
    messages = [{"role": "user", "content": word}]

    def answer():
        if not stream:
            return create("", messages=messages, **more)
        with client().messages.stream(**ask("", messages=messages, **more)) as s:
            return s.get_final_message()

    first = answer()
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
    paris, rome = first.content[1:]
    assert [paris.input, rome.input] == [{"city": "Paris"}, {"city": "Rome"}]
    results = [
        {"type": "tool_result", "tool_use_id": paris.id, "content": [{"type": "text", "text": "see"}, image]},
        {"type": "tool_result", "tool_use_id": rome.id, "content": "no such city", "is_error": True},
    ]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    assert text(answer()) == "sunny"
    (_, seen), (_, failed) = outputs(turns(word)[1])
    assert pixel in json.dumps(seen) and "see" in json.dumps(seen)
    assert "no such city" in json.dumps(failed)
    [reasoning] = [item for item in turns(word)[1]["input"] if item["type"] == "reasoning"]
    assert reasoning["encrypted_content"].startswith("encrypted-")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_tool_runner(word, stream):
    script(word, two_calls, ['call get_weather {"city":"Oslo"}'], ["text warm"])
    runner = client().beta.messages.tool_runner(**ask(word), tools=[get_weather], stream=stream)
    assert text(runner.until_done()) == "warm"
    seen = [(city["city"], json.dumps(result)) for city, result in outputs(turns(word)[2])]
    assert [city for city, _ in seen] == ["Paris", "Rome", "Oslo"]
    assert all(f"sunny in {city}" in result for city, result in seen)


def test_tool_choice(word):
    create(f"{word} [[{two_calls[0]}]]", tools=[weather_tool], tool_choice={"type": "tool", "name": "get_weather"})
    assert "get_weather" in str(turns(word)[0]["input"])


def test_structured_output(word):
    m = client().messages.parse(**ask(f"{word} [[text {json.dumps(rome)}]]"), output_format=City)
    assert m.parsed_output == City(**rome)
    assert turns(word)[0]["text"]["format"]["type"] == "json_schema"


def test_image(word):
    assert text(create([image, {"type": "text", "text": f"{word} [[text a pixel]]"}])) == "a pixel"
    assert images(turns(word)[0]) == [pixel]


def test_stop_sequence(word):
    steps = f"{word} [[text Thought: ]] [[text look Obser]] [[text vation: none]]"
    m = create(steps, stop_sequences=["Observation:"])
    assert (text(m), m.stop_reason, m.stop_sequence) == ("Thought: look ", "stop_sequence", "Observation:")


def test_cut_short(word):
    m = create(f"{word} [[text par]] [[incomplete max_output_tokens]]")
    assert (text(m), m.stop_reason) == ("par", "max_tokens")


def test_count_tokens():
    def count(prompt, **more):
        messages = [{"role": "user", "content": prompt}]
        return client().messages.count_tokens(model=claude, messages=messages, **more).input_tokens

    few, many = count("hello"), count("hello " * 1000, tools=[weather_tool], system="be brief")
    assert 0 < few < 1000
    assert many > few + 900


def test_models():
    models = list(client().models.list())
    assert model in [m.id for m in models]
    assert all(m.type == "model" and m.created_at for m in models)
    assert client().models.retrieve(model).id == model


def test_keys():
    """A key goes as X-Api-Key, or as Bearer."""
    key = client().api_key
    assert create("x")
    assert client(api_key=None, auth_token=key).messages.create(**ask("x"))


@pytest.mark.parametrize(
    "mark, kind, status",
    [
        ("[[error 400]]", anthropic.BadRequestError, 400),
        ("[[error 429]]", anthropic.RateLimitError, 429),
        ("[[error 503]]", anthropic.OverloadedError, 529),
        ("[[failed context_length_exceeded too long]]", anthropic.BadRequestError, 400),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_errors(word, mark, kind, status, stream):
    with pytest.raises(kind) as raised:
        create(f"{word} {mark}", stream=stream)
    assert raised.value.status_code == status
    assert raised.value.body["error"]["type"] == raised.value.type
    assert raised.value.request_id


def test_errors_of_the_request():
    with pytest.raises(anthropic.AuthenticationError):
        client(api_key="sk-wrong").messages.create(**ask("x"))
    with pytest.raises(anthropic.NotFoundError, match=r"\[models.aliases\] in /etc/codex-proxy/config.toml"):
        create("x", model="gpt-none")
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        create("x", max_tokens=-1)
    with pytest.raises(anthropic.NotFoundError, match="not supported"):
        client().messages.batches.list()


def test_prompt_that_is_too_long(word):
    """Clients shorten a conversation at these words."""
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        create(f"{word} [[failed context_length_exceeded too long]]")


def test_stream_fails_in_the_middle(word):
    seen = []
    with pytest.raises(anthropic.APIError):
        with client().messages.stream(**ask(f"{word} [[text so far]] [[drop]]")) as stream:
            seen += stream.text_stream
    assert not seen or seen == ["so far"]


def test_closed_stream(word):
    with client().messages.stream(**ask(f"{word} [[text so far]] [[silence]]")) as stream:
        assert next(iter(stream.text_stream)) == "so far"
    assert turns(word, n=1, cut=1)


def test_cancelled_task(word):
    async def cancel():
        async with AsyncAnthropic(max_retries=0) as c:
            task = asyncio.create_task(c.messages.create(**ask(f"{word} [[silence]]")))
            await asyncio.to_thread(turns, word, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(cancel())
    assert turns(word, n=1, cut=1)


def test_retry(word):
    script(word, ["error 429 retry-after=1"], ["text done"])
    assert text(client(max_retries=1).messages.create(**ask(word))) == "done"
    assert len(turns(word)) == 2


@alone
def test_loss_of_the_worker(word):
    answers = []
    prompt = ask(f"{word} [[gate {word}]] [[text done]]")
    asked = threading.Thread(target=lambda: answers.append(client(max_retries=2).messages.create(**prompt)))
    asked.start()
    turns(word, n=1)
    bed.kill_worker()
    release(word)
    asked.join(60)
    assert [text(m) for m in answers] == ["done"]


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
