"""LiteLLM as a library: completion, responses, its exceptions, its router."""

import asyncio
import json

import litellm
import openai
import pytest
from pydantic import BaseModel

from bed import (
    alone,
    base_url,
    images,
    kill_worker,
    model,
    outputs,
    pixel,
    release,
    rome,
    run,
    run_example,
    script,
    texts,
    turns,
)

name = "openai/" + model
weather = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']


class City(BaseModel):
    city: str
    population: int


def ask(content, **options):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    return litellm.completion(**{"model": name, "messages": messages, "max_retries": 0, "timeout": 180, **options})


def aask(content, **options):
    messages = [{"role": "user", "content": content}]
    return litellm.acompletion(**{"model": name, "messages": messages, "max_retries": 0, "timeout": 180, **options})


def respond(content, **options):
    return litellm.responses(**{"model": name, "input": content, "max_retries": 0, "timeout": 180, **options})


def test_completion(word):
    c = ask(f"{word} [[text pa]] [[text ris]] [[usage 21 8 13 5]]")
    assert c.choices[0].message.content == "paris"
    assert c.choices[0].finish_reason == "stop"
    assert c.usage.total_tokens == 34


def test_stream(word):
    chunks = list(ask(f"{word} [[text one ]] [[text two]]", stream=True, stream_options={"include_usage": True}))
    assert [t for c in chunks if c.choices and (t := c.choices[0].delta.content)] == ["one ", "two"]
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content == "one two"
    assert whole.usage.total_tokens == 15


def test_async(word):
    async def together():
        whole = await asyncio.gather(*(aask(f"{word} [[text {n}]]") for n in range(3)))
        stream = await aask(f"{word} [[text one ]] [[text two]]", stream=True)
        deltas = [c.choices[0].delta.content or "" async for c in stream]
        return [c.choices[0].message.content for c in whole], "".join(deltas)

    assert run(together()) == (["0", "1", "2"], "one two")


@pytest.mark.parametrize("stream", [False, True])
def test_tools(word, stream):
    script(word, two_calls, ["text sunny"])
    messages = [{"role": "user", "content": word}]
    answer = ask(messages, tools=[weather], stream=stream)
    message = (litellm.stream_chunk_builder(list(answer)) if stream else answer).choices[0].message
    assert [json.loads(call.function.arguments)["city"] for call in message.tool_calls] == ["Paris", "Rome"]
    messages.append(message.model_dump())
    messages += [
        {"role": "tool", "tool_call_id": c.id, "content": f"sun {n}"} for n, c in enumerate(message.tool_calls)
    ]
    assert ask(messages, tools=[weather]).choices[0].message.content == "sunny"
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "sun 0"), ({"city": "Rome"}, "sun 1")]


def test_structured_output(word):
    c = ask(f"{word} [[text {json.dumps(rome)}]]", response_format=City)
    assert City.model_validate_json(c.choices[0].message.content) == City(**rome)
    assert turns(word)[0]["text"]["format"]["type"] == "json_schema"


def test_image(word):
    content = [{"type": "text", "text": f"{word} [[text a pixel]]"}, {"type": "image_url", "image_url": {"url": pixel}}]
    assert ask(content=[{"role": "user", "content": content}]).choices[0].message.content == "a pixel"
    assert images(turns(word)[0]) == [pixel]


def test_stop(word):
    script(word, ["text one. t", "text wo. three"])
    c = ask(word, stop=["two"])
    assert c.choices[0].message.content == "one. "
    assert c.choices[0].finish_reason == "stop"


def test_text_completion(word):
    c = litellm.text_completion(model="text-completion-openai/" + model, prompt=f"{word} [[text paris]]", max_retries=0)
    assert c.choices[0].text == "paris"


def test_responses(word):
    first = respond(f"{word} I am Ada [[text nice]]")
    assert first.output[-1].content[0].text == "nice"
    second = respond("and I am? [[text Ada]]", previous_response_id=first.id)
    assert second.output[-1].content[0].text == "Ada"
    assert [text.split(" [[")[0] for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


def test_stream_of_responses(word):
    events = list(respond(f"{word} [[text one ]] [[text two]]", stream=True))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "one two"
    assert events[-1].type == "response.completed"


def test_reasoning(word):
    script(word, ["reasoning because", "text so"])
    answer = respond(word, reasoning={"effort": "low", "summary": "auto"})
    assert [i.summary[0].text for i in answer.output if i.type == "reasoning"] == ["because"]


def test_cancelled(word):
    stream = ask(f"{word} [[text so far]] [[silence]]", stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.completion_stream.close()
    turns(word, n=1, cut=1)


def test_async_cancelled(word):
    async def cancelled():
        answer = asyncio.create_task(aask(f"{word} [[text so far]] [[silence]]"))
        await asyncio.to_thread(turns, word, 1)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        await asyncio.to_thread(turns, word, 1, 1)

    run(cancelled())


@pytest.mark.parametrize(
    "mark, kind",
    [
        ("[[failed context_length_exceeded too long]]", litellm.ContextWindowExceededError),
        ("[[error 429]]", litellm.RateLimitError),
        ("[[error 400]]", litellm.BadRequestError),
        ("[[error 503]]", (litellm.ServiceUnavailableError, litellm.InternalServerError)),
    ],
    ids=["overflow", "429", "400", "503"],
)
@pytest.mark.parametrize("how", ["completion", "stream", "acompletion", "responses"])
def test_errors_of_the_model(word, how, mark, kind):
    with pytest.raises(kind):
        if how == "completion":
            ask(f"{word} {mark}")
        elif how == "stream":
            list(ask(f"{word} {mark}", stream=True))
        elif how == "acompletion":
            run(aask(f"{word} {mark}"))
        else:
            respond(f"{word} {mark}")


def test_errors():
    with pytest.raises(litellm.NotFoundError):
        ask("x", model="openai/gpt-none")
    with pytest.raises(litellm.AuthenticationError):
        ask("x", api_key="sk-wrong")


def test_stream_fails_in_the_middle(word):
    seen = []
    with pytest.raises(openai.APIError):
        for chunk in ask(f"{word} [[text so far]] [[drop]]", stream=True):
            seen.append(chunk.choices[0].delta.content or "")
    assert "".join(seen) == "so far"


def test_fallbacks(word):
    script(word, ["error 503"], ["text from the other"])
    assert ask(word, fallbacks=[name]).choices[0].message.content == "from the other"


def test_router_after_an_overflow(word):
    """A router with a model of a larger window recovers by itself."""

    def deployment(alias):
        return {"model_name": alias, "litellm_params": {"model": name, "api_base": base_url, "max_retries": 0}}

    script(word, ["failed context_length_exceeded too long"], ["text it fits"])
    router = litellm.Router(
        [deployment("small"), deployment("large")], context_window_fallbacks=[{"small": ["large"]}], num_retries=0
    )
    c = router.completion(model="small", messages=[{"role": "user", "content": word}])
    assert c.choices[0].message.content == "it fits"


def test_retries(word):
    script(word, ["error 503"], ["text at last"])
    assert ask(word, num_retries=2).choices[0].message.content == "at last"
    assert len(turns(word)) == 2


@alone
def test_loss_of_the_worker(word):
    async def lost():
        answer = asyncio.create_task(aask(f"{word} [[gate {word}]] [[text done]]", max_retries=2))
        await asyncio.to_thread(turns, word, 1)
        kill_worker()
        release(word)
        return (await answer).choices[0].message.content

    assert run(lost()) == "done"


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
