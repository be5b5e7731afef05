"""Every answer in the types of openai-python: strict validation of the client (a wrong or missing field
raises), and no field that the types do not have, but for `deliberate`."""

import json
import urllib.request

import openai
import pytest
from openai import BaseModel, OpenAI
from openai.types import Completion, Model
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from bed import api_key, base_url, model, pixel, script

# Fields that openai-python's types do not have, by type.
deliberate = {
    # How other providers send the model's reasoning in a chat.
    ("ChatCompletionMessage", "reasoning_content"),
    ("ChoiceDelta", "reasoning_content"),
    # OpenAI's own answers have it.
    ("Response", "store"),
    # Items of a response and of its input have a status, calls of custom tools too.
    ("ResponseCustomToolCall", "status"),
    # The fields of ResponseItemList, of which the client makes a page.
    ("SyncCursorPage", "object"),
    ("SyncCursorPage", "first_id"),
    ("SyncCursorPage", "last_id"),
    # openai-python raises on this form of an error, others on the flat one.
    ("ResponseErrorEvent", "error"),
}

weather = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
chat_tool = {"type": "function", "function": {"name": "get_weather", "parameters": weather}}
response_tools = [
    {"type": "function", "name": "get_weather", "parameters": weather, "strict": False},
    {"type": "custom", "name": "patch"},
]
all_of_it = ["reasoning why", "text one ", "text two", 'call get_weather {"city":"Rome"}', "usage 21 8 13 5"]
encrypted = ["reasoning.encrypted_content"]


def client():
    return OpenAI(max_retries=0, timeout=180, _strict_response_validation=True)


def user(text):
    return [{"role": "user", "content": text}]


def checked(answer):
    """checked returns the answer, which has no field beyond its types."""
    assert isinstance(answer, BaseModel), f"{answer!r} is no answer"
    unknown = set(beyond(answer)) - deliberate
    assert not unknown, f"{unknown}: {answer!r}"
    return answer


def beyond(value):
    """beyond yields the fields that no type has, with the names of the types."""
    if isinstance(value, BaseModel):
        kind = type(value).__name__.partition("[")[0]
        yield from ((kind, name) for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from beyond(getattr(value, name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from beyond(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from beyond(one)


def test_the_check_fails():
    """The check itself: a wrong type raises, and a field beyond the types is found."""
    assert set(beyond(Model(id="m", created=1, object="model", owned_by="o", extra=1))) == {("Model", "extra")}
    with pytest.raises(ValidationError):
        Model(id="m", created="then", object="model", owned_by="o")


def test_models():
    models = checked(client().models.list())
    for one in models.data:
        assert checked(one).created > 0
    assert checked(client().models.retrieve(model)).id == model


def test_chat(word):
    for steps, options in (
        (all_of_it, {"tools": [chat_tool], "extra_body": {"reasoning": {"summary": "auto"}}}),
        (["text {}"], {"response_format": {"type": "json_object"}, "n": 2}),
        (["text cut", "incomplete max_output_tokens"], {}),
        (["refusal no"], {}),
    ):
        prompt = f"{word} " + " ".join(f"[[{step}]]" for step in steps)
        answer = checked(client().chat.completions.create(model=model, messages=user(prompt), **options))
        assert answer.choices
        for usage in (True, False):
            with client().chat.completions.create(
                model=model, messages=user(prompt), stream=True, stream_options={"include_usage": usage}, **options
            ) as stream:
                assert [checked(chunk) for chunk in stream]


def test_completions(word):
    options = {"model": model, "prompt": f"{word} [[text one ]] [[text two]]", "extra_body": {"n": 2}}
    assert [choice.text for choice in checked(client().completions.create(**options)).choices] == ["one two"] * 2
    body = {**options, "stream": True, "stream_options": {"include_usage": True}}
    body.update(body.pop("extra_body"))
    chunks = list(raw_events("/completions", body))
    for chunk in chunks:
        for choice in chunk["choices"]:
            # OpenAI's own chunks have null until the last one, though the type has it not.
            choice["finish_reason"] = choice["finish_reason"] or "stop"
        checked(TypeAdapter(Completion).validate_python(chunk))
    assert len(chunks) > 2


def test_chat_functions(word):
    """The legacy form of tools."""
    options = {"model": model, "messages": user(f"{word} [[{all_of_it[3]}]]"), "functions": [chat_tool["function"]]}
    assert checked(client().chat.completions.create(**options)).choices[0].message.function_call
    assert [checked(chunk) for chunk in client().chat.completions.create(stream=True, **options)]


def requests():
    """requests are steps of the model, and options of the request."""
    yield all_of_it, {"tools": response_tools, "reasoning": {"summary": "auto"}, "include": encrypted}
    yield ["call patch {\"input\":\"x\"}"], {"tools": response_tools, "parallel_tool_calls": False}
    yield ["text {}"], {"text": {"format": {"type": "json_schema", "name": "w", "schema": weather, "strict": True}}}
    yield (
        ["text a"],
        {
            "service_tier": "flex",
            "max_tool_calls": 3,
            "prompt_cache_key": "k",
            "safety_identifier": "s",
            "user": "u",
            "metadata": {"a": "b"},
            "instructions": "i",
            "truncation": "auto",
            "tools": response_tools,
            "tool_choice": {"type": "function", "name": "get_weather"},
        },
    )
    yield ["text cut", "incomplete max_output_tokens"], {"store": False}
    yield ["refusal no"], {}


def test_responses(word):
    for steps, options in requests():
        prompt = f"{word} " + " ".join(f"[[{step}]]" for step in steps)
        answer = checked(client().responses.create(model=model, input=prompt, **options))
        assert answer.store == options.get("store", True)
        assert answer.service_tier == options.get("service_tier", "auto")
        for name in ("max_tool_calls", "prompt_cache_key", "safety_identifier", "user"):
            assert getattr(answer, name) == options.get(name)
        assert (answer.top_logprobs, answer.truncation) == (0, "disabled")
        with client().responses.create(model=model, input=prompt, stream=True, **options) as stream:
            events = [checked(event) for event in stream]
        assert events[0].type == "response.created"
        assert events[-1].type in ("response.completed", "response.incomplete")
        if answer.store:
            assert checked(client().responses.retrieve(answer.id)) == answer


def test_failed_stream(word):
    """The client raises in the middle of such a stream, so that its events are read without it."""
    prompt = f"{word} [[text so far]] [[failed server_error oops]]"
    kinds = []
    for data in raw_events("/responses", {"model": model, "input": prompt, "stream": True}):
        kinds.append(data["type"])
        checked(TypeAdapter(ResponseStreamEvent).validate_python(data))
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.failed"


def raw_events(path, body):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {api_key}"}
    request = urllib.request.Request(base_url + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=180) as answer:
        for line in answer:
            if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                yield json.loads(line[6:])


def test_input_items(word):
    c = client()
    script(word, ["reasoning why", 'call get_weather {"city":"Rome"}', 'call patch {"input":"x"}'], ["text fine"])
    content = [
        {"type": "input_text", "text": word},
        {"type": "input_image", "image_url": pixel},
        {"type": "input_image", "image_url": pixel, "detail": "high"},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain,hello"},
    ]
    history = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        {"role": "user", "content": content},
    ]
    first = c.responses.create(model=model, input=history, tools=response_tools, reasoning={"summary": "auto"})
    outputs = [
        {"type": f"{item.type}_output", "call_id": item.call_id, "output": [{"type": "input_image", "image_url": pixel}]}
        for item in first.output
        if item.type in ("function_call", "custom_tool_call")
    ]
    assert len(outputs) == 2
    second = c.responses.create(
        model=model, input=outputs, previous_response_id=first.id, tools=response_tools, include=encrypted
    )
    for wanted in (None, encrypted):
        options = {} if wanted is None else {"include": wanted}
        page = c.responses.input_items.list(second.id, limit=100, order="asc", **options)
        checked(page)
        kinds = [checked(item).type for item in page.data]
        assert kinds.count("message") == 4 and kinds.count("reasoning") == 1, kinds
        [reasoning] = [item for item in page.data if item.type == "reasoning"]
        assert bool(reasoning.encrypted_content) == (wanted is not None)
    whole = list(c.responses.input_items.list(second.id, limit=1))
    assert len(whole) == len(page.data)


def test_deletion_and_cancel(word):
    c = client()
    answer = c.responses.create(model=model, input=word)
    with pytest.raises(openai.BadRequestError):
        c.responses.cancel(answer.id)
    deleted = c.responses.with_raw_response.delete(answer.id)
    assert deleted.http_response.json() == {"id": answer.id, "object": "response", "deleted": True}
    with pytest.raises(openai.NotFoundError):
        c.responses.retrieve(answer.id)
