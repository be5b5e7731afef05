"""LangChain's ChatOpenAI and OpenAI, its agents, and LangGraph below them."""

import asyncio
import json
from typing import Annotated

import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy
from langchain_classic.agents import AgentExecutor, create_react_agent
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field, ValidationError

from bed import alone, images, kill_worker, model, outputs, pixel, release, rome, run, run_example, script, texts, turns


class City(BaseModel):
    """A city."""

    city: str
    population: int = Field(default=0, ge=0)


@tool
def get_weather(city: Annotated[str, "where"]) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']
both_apis = pytest.mark.parametrize("api", ["chat", "responses"])


def chat(**options):
    return ChatOpenAI(**{"model": model, "max_retries": 0, "timeout": 180, **options})


def of(api, **options):
    return chat(use_responses_api=api == "responses", **options)


@both_apis
def test_invoke(word, api):
    answer = of(api).invoke(
        [
            SystemMessage("be brief"),
            HumanMessage("one"),
            AIMessage("two"),
            HumanMessage(f"{word} [[text pa]] [[text ris]] [[usage 21 8 13 5]]"),
        ]
    )
    assert answer.text == "paris"
    assert answer.usage_metadata["total_tokens"] == 34
    assert answer.usage_metadata["input_token_details"]["cache_read"] == 8
    assert [text.split(" [[")[0] for _, text in texts(turns(word)[0])][-3:] == ["one", "two", word]


@both_apis
def test_stream(word, api):
    chunks = list(of(api, stream_usage=True).stream(f"{word} [[text one ]] [[text two]]"))
    assert [c.text for c in chunks if c.text] == ["one ", "two"]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert whole.usage_metadata["total_tokens"] == 15


@both_apis
def test_async_and_batch(word, api):
    async def ask():
        deltas = [c.text async for c in of(api).astream(f"{word} [[text one ]] [[text two]]")]
        answers = await of(api).abatch([f"{word} [[text {n}]]" for n in range(4)])
        return "".join(deltas), [a.text for a in answers]

    assert run(ask()) == ("one two", ["0", "1", "2", "3"])


def test_chain(word):
    chain = (
        ChatPromptTemplate.from_messages([("system", "speak {how}"), ("user", "{what}")]) | chat() | StrOutputParser()
    )
    assert "".join(chain.stream({"how": "softly", "what": f"{word} [[text sh]] [[text hh]]"})) == "shhh"


@both_apis
@pytest.mark.parametrize("stream", [False, True])
def test_tools(word, api, stream):
    script(word, two_calls, ["text sunny"])
    bound = of(api, streaming=stream).bind_tools([get_weather])
    messages = [HumanMessage(word)]
    first = bound.invoke(messages)
    assert [call["args"]["city"] for call in first.tool_calls] == ["Paris", "Rome"]
    messages += [first, *(get_weather.invoke(call) for call in first.tool_calls)]
    assert all(isinstance(m, ToolMessage) for m in messages[2:])
    assert bound.invoke(messages).text == "sunny"
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "sunny in Paris"), ({"city": "Rome"}, "sunny in Rome")]


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_structured_output(word, method):
    answer = f"call City {json.dumps(rome)}" if method == "function_calling" else f"text {json.dumps(rome)}"
    structured = chat().with_structured_output(City, method=method)
    assert structured.invoke(f"{word} as JSON [[{answer}]]") == City(**rome)


def test_structured_output_by_default_is_the_endpoints_format(word):
    """City has a default and a minimum: its schema is outside of the strict subset."""
    assert chat().with_structured_output(City).invoke(f"{word} [[text {json.dumps(rome)}]]") == City(**rome)
    [turn] = turns(word)
    assert turn["text"]["format"]["type"] == "json_schema"


def test_structured_output_that_cannot_be_read(word):
    with pytest.raises(ValidationError):
        chat().with_structured_output(City).invoke(f"{word} [[text sorry]]")


@both_apis
def test_image(word, api):
    content = [{"type": "text", "text": f"{word} [[text a pixel]]"}, {"type": "image_url", "image_url": {"url": pixel}}]
    assert of(api).invoke([HumanMessage(content)]).text == "a pixel"
    assert images(turns(word)[0]) == [pixel]


def test_stop(word):
    script(word, ["text Action: look\nOb", "text servation: made up"])
    answer = chat().bind(stop=["\nObservation"]).invoke(word)
    assert answer.text == "Action: look"
    assert answer.response_metadata["finish_reason"] == "stop"


def test_completion(word):
    """The legacy class, which sends one prompt without roles."""
    script(word, ["text one t", "text wo three"], ["text one ", "text two"])
    completion = OpenAI(model=model, max_retries=0, batch_size=1)
    assert completion.invoke(word, stop=["two"]) == "one "
    assert [delta for delta in completion.stream(word) if delta] == ["one ", "two"]


def test_react_agent(word):
    """The agent of prompts: it stops the model before the model invents an observation."""
    thought = "text Thought: look\nAction: get_weather\nAction Input: Paris"
    script(
        word,
        [thought, "text \nObserv", "text ation: invented"],
        ["text Thought: I now know the final answer\nFinal Answer: sunny"],
    )
    prompt = PromptTemplate.from_template("Tools: {tools} {tool_names}\nQuestion: {input}\n{agent_scratchpad}")
    agent = create_react_agent(chat(), [get_weather], prompt)
    answer = AgentExecutor(agent=agent, tools=[get_weather]).invoke({"input": word})
    assert answer["output"] == "sunny"
    assert "Observation: sunny in Paris" in texts(turns(word)[1])[-1][1]
    assert "invented" not in json.dumps(turns(word)[1]["input"])


@both_apis
def test_agent(word, api):
    script(word, two_calls, ["text sunny"])
    agent = create_agent(of(api), [get_weather], system_prompt="help")
    messages = agent.invoke({"messages": [HumanMessage(word)]})["messages"]
    assert messages[-1].text == "sunny"
    assert len(outputs(turns(word)[1])) == 2


def test_agent_with_memory(word):
    script(word, ["text nice"], ["text you are Ada"])
    agent = create_agent(chat(), [get_weather], checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": word}}
    agent.invoke({"messages": [HumanMessage(f"{word} I am Ada")]}, thread)
    answer = agent.invoke({"messages": [HumanMessage("and I am?")]}, thread)["messages"][-1]
    assert answer.text == "you are Ada"
    assert [text for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


def test_agent_streams_its_steps(word):
    script(word, two_calls, ["text sun", "text ny"])
    agent = create_agent(chat(), [get_weather])
    tokens = [
        chunk.text
        for chunk, _ in agent.stream({"messages": [HumanMessage(word)]}, stream_mode="messages")
        if chunk.type == "AIMessageChunk" and chunk.text
    ]
    assert tokens == ["sun", "ny"]


def test_agent_with_structured_output(word):
    script(word, two_calls, [f"text {json.dumps(rome)}"])
    agent = create_agent(chat(), [get_weather], response_format=ProviderStrategy(City))
    assert agent.invoke({"messages": [HumanMessage(word)]})["structured_response"] == City(**rome)


def test_previous_response(word):
    script(word, ["text nice"], ["text you are Ada"])
    kept = of("responses", use_previous_response_id=True, store=True)
    asked = [HumanMessage(f"{word} I am Ada")]
    first = kept.invoke(asked)
    assert first.response_metadata["id"].startswith("resp_")
    answer = kept.invoke([*asked, first, HumanMessage("and I am?")])
    assert answer.text == "you are Ada"
    assert [text for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


def test_reasoning(word):
    answer = of("responses", reasoning={"effort": "low", "summary": "auto"}).invoke(
        f"{word} [[reasoning because]] [[text so]]"
    )
    [thought] = [block for block in answer.content_blocks if block["type"] == "reasoning"]
    assert thought["reasoning"] == "because"
    assert answer.text == "so"


def test_cancelled(word):
    stream = chat().stream(f"{word} [[text so far]] [[silence]]")
    for chunk in stream:
        if chunk.text:
            break
    stream.close()
    turns(word, n=1, cut=1)


@both_apis
def test_async_cancelled(word, api):
    async def cancelled():
        ask = asyncio.create_task(of(api).ainvoke(f"{word} [[text so far]] [[silence]]"))
        await asyncio.to_thread(turns, word, 1)
        ask.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ask
        await asyncio.to_thread(turns, word, 1, 1)

    run(cancelled())


@both_apis
@pytest.mark.parametrize("stream", [False, True])
def test_context_overflow(word, api, stream):
    with pytest.raises(ContextOverflowError):
        of(api, streaming=stream).invoke(f"{word} [[failed context_length_exceeded too long]]")


@both_apis
def test_errors(word, api):
    for mark, kind in {"[[error 429]]": openai.RateLimitError, "[[error 503]]": openai.InternalServerError}.items():
        with pytest.raises(kind):
            of(api).invoke(f"{word} {mark}")
    with pytest.raises(openai.NotFoundError):
        of(api, model="gpt-none").invoke("x")
    with pytest.raises(openai.AuthenticationError):
        of(api, api_key="sk-wrong").invoke("x")


@both_apis
def test_stream_fails_in_the_middle(word, api):
    seen = []
    with pytest.raises(openai.APIError):
        for chunk in of(api).stream(f"{word} [[text so far]] [[drop]]"):
            seen.append(chunk.text)
    assert "".join(seen) == "so far"


def test_fallback(word):
    script(word, ["error 503"], ["text from the other"])
    assert chat().with_fallbacks([chat()]).invoke(word).text == "from the other"


@alone
@both_apis
def test_loss_of_the_worker(word, api):
    async def ask():
        answer = asyncio.create_task(of(api, max_retries=2).ainvoke(f"{word} [[gate {word}]] [[text done]]"))
        await asyncio.to_thread(turns, word, 1)
        kill_worker()
        release(word)
        return (await answer).text

    assert run(ask()) == "done"


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
