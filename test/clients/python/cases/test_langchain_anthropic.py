"""LangChain's ChatAnthropic, with the Messages API."""

import asyncio
import json

import anthropic
import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from bed import claude, images, outputs, pixel, rome, run, run_example, script, turns


class City(BaseModel):
    """A city."""

    city: str
    population: int


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']
thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}


def chat(**options):
    return ChatAnthropic(**{"model": claude, "max_retries": 0, "timeout": 180, **options})


def test_invoke(word):
    messages = [SystemMessage("be brief"), HumanMessage(f"{word} [[text pa]] [[text ris]] [[usage 21 8 13 5]]")]
    answer = chat().invoke(messages)
    assert answer.text == "paris"
    assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (21, 13)
    assert answer.usage_metadata["input_token_details"]["cache_read"] == 8
    assert "be brief" in str(turns(word)[0])


def test_stream(word):
    chunks = list(chat(**thinking).stream(f"{word} [[reasoning because]] [[text one ]] [[text two]]"))
    assert [c.text for c in chunks if c.text] == ["one ", "two"]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert [b["reasoning"] for b in whole.content_blocks if b["type"] == "reasoning"] == ["because"]
    assert whole.usage_metadata["total_tokens"] == 15


def test_async_and_batch(word):
    async def ask():
        deltas = [c.text async for c in chat().astream(f"{word} [[text one ]] [[text two]]")]
        return "".join(deltas), [a.text for a in await chat().abatch([f"{word} [[text {n}]]" for n in range(4)])]

    assert run(ask()) == ("one two", ["0", "1", "2", "3"])


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_agent(word, streaming):
    script(word, ["reasoning hm", *two_calls], ['call get_weather {"city":"Oslo"}'], ["text warm"])
    agent = create_agent(chat(streaming=streaming, **thinking), tools=[get_weather], system_prompt="use tools")
    assert agent.invoke({"messages": [HumanMessage(word)]})["messages"][-1].text == "warm"
    seen = outputs(turns(word)[2])
    assert [city["city"] for city, _ in seen] == ["Paris", "Rome", "Oslo"]
    assert all(f"sunny in {city['city']}" in json.dumps(result) for city, result in seen)
    assert any(item["type"] == "reasoning" for item in turns(word)[2]["input"])


@pytest.mark.parametrize("method, step", [("function_calling", "call City"), ("json_schema", "text")])
def test_structured_output(word, method, step):
    answer = chat().with_structured_output(City, method=method).invoke(f"{word} [[{step} {json.dumps(rome)}]]")
    assert answer == City(**rome)


def test_image(word):
    content = [{"type": "text", "text": f"{word} [[text a pixel]]"}, {"type": "image_url", "image_url": {"url": pixel}}]
    assert chat().invoke([HumanMessage(content)]).text == "a pixel"
    assert images(turns(word)[0]) == [pixel]


def test_stop(word):
    prompt = f"{word} [[text Thought: ]] [[text look Obser]] [[text vation: none]]"
    assert chat().invoke(prompt, stop=["Observation:"]).text == "Thought: look "


def test_count_tokens():
    assert 0 < chat().get_num_tokens_from_messages([HumanMessage("hello")]) < 1000


def test_cancelled_task(word):
    async def cancel():
        task = asyncio.create_task(chat().ainvoke(f"{word} [[silence]]"))
        await asyncio.to_thread(turns, word, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel())
    assert turns(word, n=1, cut=1)


def test_errors(word):
    for mark, kind in (("[[error 429]]", anthropic.RateLimitError), ("[[error 503]]", anthropic.OverloadedError)):
        with pytest.raises(kind):
            chat().invoke(f"{word} {mark}")
    with pytest.raises(anthropic.NotFoundError):
        chat(model="gpt-none").invoke("x")
    with pytest.raises(anthropic.AuthenticationError):
        chat(api_key="sk-wrong").invoke("x")


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
