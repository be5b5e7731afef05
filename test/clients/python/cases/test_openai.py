"""openai-python, by itself: versions 1, 2 and 3."""

import asyncio
import json
import threading

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from bed import alone, images, kill_worker, model, outputs, pixel, release, rome, run, run_example, script, texts, turns


class City(BaseModel):
    city: str
    population: int


weather = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
chat_tool = {"type": "function", "function": {"name": "get_weather", "parameters": weather}}
response_tool = {"type": "function", "name": "get_weather", "parameters": weather}
two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']


def client(**options):
    return OpenAI(**{"max_retries": 0, "timeout": 180, **options})


def user(*content):
    return [{"role": "user", "content": content[0] if len(content) == 1 else list(content)}]


# Chat completions.


def test_chat(word):
    c = client().chat.completions.create(
        model=model, messages=user(f"{word} [[text pa]] [[text ris 🙂]] [[usage 21 8 13 5]]")
    )
    assert c.choices[0].message.content == "paris 🙂"
    assert c.choices[0].finish_reason == "stop"
    assert (c.usage.total_tokens, c.usage.prompt_tokens_details.cached_tokens) == (34, 8)
    assert c.usage.completion_tokens_details.reasoning_tokens == 5


def test_chat_roles(word):
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": f"{word} one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    client().chat.completions.create(model=model, messages=messages)
    [turn] = turns(word)
    assert "be brief" in "".join(text for role, text in texts(turn) if role == "developer")
    assert texts(turn)[-3:] == [("user", f"{word} one"), ("assistant", "two"), ("user", "three")]


def test_chat_stream(word):
    stream = client().chat.completions.create(
        model=model,
        messages=user(f"{word} [[text one ]] [[text two]]"),
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content] == ["one ", "two"]
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.total_tokens == 15


def test_chat_stream_arrives_before_its_end(word):
    with client().chat.completions.create(
        model=model, messages=user(f"{word} [[text early]] [[gate {word}]] [[text late]]"), stream=True
    ) as stream:
        seen = ""
        for chunk in stream:
            seen += chunk.choices[0].delta.content or ""
            if seen == "early":
                release(word)
    assert seen == "earlylate"


def test_chat_tools(word):
    script(word, two_calls, ["text sunny"])
    messages = user(word)
    c = client()
    first = c.chat.completions.create(model=model, messages=messages, tools=[chat_tool])
    assert first.choices[0].finish_reason == "tool_calls"
    calls = first.choices[0].message.tool_calls
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Paris", "Rome"]
    messages.append(first.choices[0].message)
    messages += [{"role": "tool", "tool_call_id": call.id, "content": f"sun {n}"} for n, call in enumerate(calls)]
    second = c.chat.completions.create(model=model, messages=messages, tools=[chat_tool])
    assert second.choices[0].message.content == "sunny"
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "sun 0"), ({"city": "Rome"}, "sun 1")]


def test_chat_stream_of_tools(word):
    with client().chat.completions.stream(
        model=model,
        messages=user(f"{word} [[{two_calls[0]}]] [[{two_calls[1]}]]"),
        tools=[{"type": "function", "function": {**chat_tool["function"], "strict": True}}],
    ) as stream:
        done = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
    assert [e.parsed_arguments for e in done] == [{"city": "Paris"}, {"city": "Rome"}]


def test_chat_structured_output(word):
    c = client().chat.completions.parse(
        model=model, messages=user(f"{word} [[text {json.dumps(rome)}]]"), response_format=City
    )
    assert c.choices[0].message.parsed == City(**rome)
    [turn] = turns(word)
    assert turn["text"]["format"]["type"] == "json_schema"
    assert turn["text"]["format"]["strict"] is True


def test_chat_structured_output_cut_short(word):
    with pytest.raises(openai.LengthFinishReasonError):
        client().chat.completions.parse(
            model=model,
            messages=user(f'{word} [[text {{"city":]] [[incomplete max_output_tokens]]'),
            response_format=City,
        )


def test_chat_image(word):
    c = client().chat.completions.create(
        model=model,
        messages=user(
            {"type": "text", "text": f"{word} [[text a pixel]]"}, {"type": "image_url", "image_url": {"url": pixel}}
        ),
    )
    assert c.choices[0].message.content == "a pixel"
    assert images(turns(word)[0]) == [pixel]


def test_chat_cancelled(word):
    stream = client().chat.completions.create(
        model=model, messages=user(f"{word} [[text so far]] [[silence]]"), stream=True
    )
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    turns(word, cut=1)


def test_chat_async_cancelled(word):
    async def cancelled():
        async with AsyncOpenAI(max_retries=0) as c:
            ask = asyncio.create_task(
                c.chat.completions.create(model=model, messages=user(f"{word} [[text so far]] [[silence]]"))
            )
            await asyncio.to_thread(turns, word, 1)
            ask.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ask
            await asyncio.to_thread(turns, word, 1, 1)

    run(cancelled())


def test_chat_timeout(word):
    with pytest.raises(openai.APITimeoutError):
        client(timeout=10).chat.completions.create(model=model, messages=user(f"{word} [[silence]]"))
    turns(word, cut=1)


def test_chat_stop(word):
    script(word, ["text one t", "text wo three"])
    stream = client().chat.completions.create(model=model, messages=user(word), stop=["two"], stream=True)
    chunks = [c.choices[0] for c in stream if c.choices]
    assert "".join(c.delta.content or "" for c in chunks) == "one "
    assert chunks[-1].finish_reason == "stop"


def test_completion(word):
    script(word, ["text one t", "text wo three"], ["text one ", "text two"])
    c = client().completions.create(model=model, prompt=word, stop="two")
    assert (c.choices[0].text, c.choices[0].finish_reason) == ("one ", "stop")
    stream = client().completions.create(model=model, prompt=word, stream=True)
    assert [c.choices[0].text for c in stream if c.choices and c.choices[0].text] == ["one ", "two"]


# Responses.


def test_response(word):
    r = client().responses.create(model=model, input=f"{word} [[text pa]] [[text ris]] [[usage 21 8 13 5]]")
    assert (r.output_text, r.status, r.usage.total_tokens) == ("paris", "completed", 34)


def test_response_stream(word):
    with client().responses.stream(model=model, input=f"{word} [[reasoning why]] [[text one ]] [[text two]]") as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        r = stream.get_final_response()
    assert deltas == ["one ", "two"]
    assert r.output_text == "one two"
    assert [i.type for i in r.output] == ["reasoning", "message"]


def test_response_reasoning(word):
    r = client().responses.create(
        model=model, input=f"{word} [[reasoning because]] [[text so]]", reasoning={"summary": "auto"}
    )
    assert r.output[0].summary[0].text == "because"
    assert r.output_text == "so"


@pytest.mark.parametrize("how", ["items", "previous_response_id"])
def test_response_tools(word, how):
    script(word, two_calls, ["text sunny"])
    asked = [{"role": "user", "content": word}]
    c = client()
    first = c.responses.create(model=model, input=asked, tools=[response_tool], store=how != "items")
    results = [
        {"type": "function_call_output", "call_id": i.call_id, "output": json.loads(i.arguments)["city"]}
        for i in first.output
        if i.type == "function_call"
    ]
    if how == "items":
        more = {"input": asked + first.output + results}
    else:
        more = {"input": results, "previous_response_id": first.id}
    second = c.responses.create(model=model, tools=[response_tool], **more)
    assert second.output_text == "sunny"
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "Paris"), ({"city": "Rome"}, "Rome")]


def test_response_chain(word):
    c, previous = client(), None
    for n in (1, 2, 3):
        r = c.responses.create(
            model=model,
            input=f"{word} {n} [[text answer {n}]]",
            **({"previous_response_id": previous} if previous else {}),
        )
        assert r.previous_response_id == previous
        previous = r.id
    said = [text.split(" [[")[0] for _, text in texts(turns(word)[2])][-5:]
    assert said == [f"{word} 1", "answer 1", f"{word} 2", "answer 2", f"{word} 3"]
    assert c.responses.retrieve(previous).output_text == "answer 3"
    [item] = c.responses.input_items.list(previous).data[:1]
    assert item.type == "message"
    c.responses.delete(previous)
    with pytest.raises(openai.NotFoundError):
        c.responses.retrieve(previous)


def test_response_structured_output(word):
    r = client().responses.parse(model=model, input=f"{word} [[text {json.dumps(rome)}]]", text_format=City)
    assert r.output_parsed == City(**rome)
    assert turns(word)[0]["text"]["format"]["type"] == "json_schema"


def test_response_image(word):
    content = [
        {"type": "input_text", "text": f"{word} [[text a pixel]]"},
        {"type": "input_image", "image_url": pixel, "detail": "auto"},
    ]
    r = client().responses.create(model=model, input=[{"role": "user", "content": content}])
    assert r.output_text == "a pixel"
    assert images(turns(word)[0]) == [pixel]


def test_response_cut_short(word):
    r = client().responses.create(model=model, input=f"{word} [[text par]] [[incomplete max_output_tokens]]")
    assert (r.status, r.incomplete_details.reason, r.output_text) == ("incomplete", "max_output_tokens", "par")


def test_response_cancelled(word):
    with client().responses.create(model=model, input=f"{word} [[text so far]] [[silence]]", stream=True) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                break
    turns(word, cut=1)


def test_response_async_stream(word):
    async def ask(n):
        async with AsyncOpenAI(max_retries=0) as c:
            stream = await c.responses.create(model=model, input=f"{word} [[text {n}]]", stream=True)
            return [e.delta async for e in stream if e.type == "response.output_text.delta"]

    async def together():
        return await asyncio.gather(*(ask(n) for n in range(3)))

    assert run(together()) == [["0"], ["1"], ["2"]]


# Errors.


def asked(api, c, prompt, **more):
    if api == "chat":
        return c.chat.completions.create(**{"model": model, "messages": user(prompt), **more})
    return c.responses.create(**{"model": model, "input": prompt, **more})


def drained(api, c, prompt, stream, **more):
    answer = asked(api, c, prompt, stream=stream, **more)
    return list(answer) if stream else answer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    "mark, kind, code",
    [
        ("[[error 429]]", openai.RateLimitError, "rate_limited"),
        ("[[error 503]]", openai.InternalServerError, "upstream_error"),
        ("[[failed context_length_exceeded too long]]", openai.BadRequestError, "context_length_exceeded"),
    ],
)
def test_error_of_the_model(word, api, stream, mark, kind, code):
    with pytest.raises(openai.APIError) as e:
        drained(api, client(), f"{word} {mark}", stream)
    assert e.value.code == code
    if api == "chat" or not stream:  # a stream of a response has begun, its error has no status
        assert type(e.value) is kind


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_unknown_model(api):
    with pytest.raises(openai.NotFoundError) as e:
        asked(api, client(), "x", model="gpt-none")
    assert (e.value.code, e.value.param) == ("model_not_found", "model")
    assert e.value.request_id


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_bad_key(api):
    with pytest.raises(openai.AuthenticationError) as e:
        asked(api, client(api_key="sk-wrong"), "x")
    assert e.value.code == "invalid_api_key"


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_unknown_parameter(api):
    with pytest.raises(openai.BadRequestError) as e:
        asked(api, client(), "x", extra_body={"nonsense": 1})
    assert (e.value.code, e.value.param) == ("unknown_parameter", "nonsense")


def test_chat_stream_fails_in_the_middle(word):
    seen = []
    with pytest.raises(openai.APIError) as e:
        for chunk in asked("chat", client(), f"{word} [[text so far]] [[drop]]", stream=True):
            seen.append(chunk.choices[0].delta.content or "")
    assert "".join(seen) == "so far"
    assert e.value.code == "upstream_error"


def test_not_supported(word):
    with pytest.raises(openai.NotFoundError) as e:
        client().embeddings.create(model=model, input="x")
    assert e.value.code == "not_supported"
    with pytest.raises(openai.BadRequestError) as e:
        asked("chat", client(), "x", logprobs=True)
    assert e.value.code == "unsupported_parameter"
    raw = client().chat.completions.with_raw_response.create(
        model=model, messages=user(word), temperature=0.5, top_p=0.5, seed=1, max_tokens=5
    )
    ignored = raw.headers["X-Codex-Ignored-Params"]
    assert all(name in ignored for name in ["temperature", "top_p", "seed", "max_tokens"])


def test_retry(word):
    script(word, ["error 503"], ["text at last"])
    c = client(max_retries=2).chat.completions.create(model=model, messages=user(word))
    assert c.choices[0].message.content == "at last"
    assert len(turns(word)) == 2


@alone
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_loss_of_the_worker(word, api):
    answers = []
    ask = threading.Thread(
        target=lambda: answers.append(asked(api, client(max_retries=2), f"{word} [[gate {word}]] [[text done]]"))
    )
    ask.start()
    turns(word, n=1)
    kill_worker()
    release(word)
    ask.join(60)
    [answer] = answers
    assert (answer.choices[0].message.content if api == "chat" else answer.output_text) == "done"


def test_models():
    [m] = [m for m in client().models.list() if m.id == model]
    assert m.object == "model"
    assert client().models.retrieve(model).id == model


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
