"""pydantic-ai's agents, on chat completions and on responses."""

import asyncio
import base64
import json
from typing import Annotated

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    BinaryContent,
    ImageUrl,
    ModelAPIError,
    ModelAuthenticationError,
    ModelContextWindowExceededError,
    ModelNotFoundError,
    ModelRateLimitError,
    ModelUnavailableError,
    NativeOutput,
    PromptedOutput,
    RunContext,
    ToolOutput,
)
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

from bed import alone, images, kill_worker, model, outputs, pixel, release, rome, run, run_example, script, texts, turns

both_apis = pytest.mark.parametrize("api", ["chat", "responses"])
two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']


class City(BaseModel):
    city: str
    population: Annotated[int, Field(ge=0)] = 0


class Sorry(BaseModel):
    reason: str


def of(api, name=model, **options):
    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    return kind(name, provider=OpenAIProvider(openai_client=AsyncOpenAI(**{"max_retries": 0, **options})))


def with_weather(api, **options):
    agent = Agent(of(api), deps_type=str, **options)

    @agent.tool
    def get_weather(ctx: RunContext[str], city: str) -> str:
        """The weather in a city."""
        return f"{ctx.deps} in {city}"

    return agent


@both_apis
def test_run(word, api):
    agent = Agent(of(api), instructions="be brief")
    result = agent.run_sync(f"{word} [[text pa]] [[text ris]] [[usage 21 8 13 5]]")
    assert result.output == "paris"
    assert (result.usage.input_tokens, result.usage.cache_read_tokens, result.usage.output_tokens) == (21, 8, 13)
    assert any("be brief" in text for role, text in texts(turns(word)[0]) if role == "developer")


@both_apis
def test_stream(word, api):
    async def ask():
        async with Agent(of(api)).run_stream(f"{word} [[text one ]] [[text two]]") as result:
            return [delta async for delta in result.stream_text(delta=True, debounce_by=None)]

    assert run(ask()) == ["one ", "two"]


@both_apis
def test_tools(word, api):
    script(word, two_calls, ["text both sunny"])
    result = with_weather(api).run_sync(word, deps="sunny")
    assert result.output == "both sunny"
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "sunny in Paris"), ({"city": "Rome"}, "sunny in Rome")]


@both_apis
def test_stream_with_tools(word, api):
    script(word, two_calls, ["text both ", "text sunny"])

    async def ask():
        async with with_weather(api).run_stream(word, deps="sunny") as result:
            return [delta async for delta in result.stream_text(delta=True, debounce_by=None)]

    assert run(ask()) == ["both ", "sunny"]


@both_apis
def test_tool_that_is_tried_again(word, api):
    script(word, ['call get_weather {"place":"Paris"}'], ['call get_weather {"city":"Paris"}'], ["text sunny"])
    assert with_weather(api).run_sync(word, deps="sun").output == "sunny"
    assert "Field required" in json.dumps(outputs(turns(word)[1]))


@both_apis
@pytest.mark.parametrize(
    "output, answer",
    [
        (City, f"call final_result {json.dumps(rome)}"),
        (ToolOutput(City, name="city"), f"call city {json.dumps(rome)}"),
        (NativeOutput(City), f"text {json.dumps(rome)}"),
        (PromptedOutput(City), f"text {json.dumps(rome)}"),
    ],
    ids=["default", "tool", "native", "prompted"],
)
def test_output(word, api, output, answer):
    script(word, [answer])
    assert Agent(of(api), output_type=output).run_sync(word).output == City(**rome)


@both_apis
def test_native_output_is_the_endpoints_format(word, api):
    """City has a default and a minimum: its schema is outside of the strict subset."""
    script(word, [f"text {json.dumps(rome)}"])
    Agent(of(api), output_type=NativeOutput(City)).run_sync(word)
    assert turns(word)[0]["text"]["format"]["type"] == "json_schema"


@both_apis
def test_output_of_one_of_several_types(word, api):
    script(word, ['call final_result_Sorry {"reason":"too far"}'])
    assert Agent(of(api), output_type=[City, Sorry]).run_sync(word).output == Sorry(reason="too far")


@both_apis
def test_output_that_is_tried_again(word, api):
    script(word, ['call final_result {"city":5}'], [f"call final_result {json.dumps(rome)}"])
    assert Agent(of(api), output_type=City).run_sync(word).output == City(**rome)


@both_apis
def test_output_in_a_stream(word, api):
    script(word, [f"call final_result {json.dumps(rome)}"])

    async def ask():
        async with Agent(of(api), output_type=City).run_stream(word) as result:
            return await result.get_output()

    assert run(ask()) == City(**rome)


@both_apis
def test_images(word, api):
    png = base64.b64decode(pixel.split(",")[1])
    result = Agent(of(api)).run_sync(
        [f"{word} [[text two pixels]]", BinaryContent(png, media_type="image/png"), ImageUrl(pixel)]
    )
    assert result.output == "two pixels"
    assert images(turns(word)[0]) == [pixel, pixel]


@both_apis
def test_history(word, api):
    script(word, ["text nice"], ["text you are Ada"])
    agent = Agent(of(api))
    first = agent.run_sync(f"{word} I am Ada")
    second = agent.run_sync("and I am?", message_history=first.all_messages())
    assert second.output == "you are Ada"
    assert [text for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


def test_previous_response(word):
    script(word, ["text nice"], ["text you are Ada"])
    agent = Agent(
        of("responses"),
        model_settings=OpenAIResponsesModelSettings(openai_previous_response_id="auto", openai_store=True),
    )
    first = agent.run_sync(f"{word} I am Ada")
    second = agent.run_sync("and I am?", message_history=first.all_messages())
    assert second.output == "you are Ada"
    assert [text for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


def test_reasoning(word):
    agent = Agent(
        of("responses"),
        model_settings=OpenAIResponsesModelSettings(openai_reasoning_effort="low", openai_reasoning_summary="auto"),
    )
    result = agent.run_sync(f"{word} [[reasoning because]] [[text so]]")
    answer = result.all_messages()[-1]
    assert isinstance(answer, ModelResponse)
    assert [p.content for p in answer.parts if isinstance(p, ThinkingPart)] == ["because"]
    assert result.output == "so"


@both_apis
def test_cancelled(word, api):
    async def cancelled():
        ask = asyncio.create_task(Agent(of(api)).run(f"{word} [[text so far]] [[silence]]"))
        await asyncio.to_thread(turns, word, 1)
        ask.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ask
        await asyncio.to_thread(turns, word, 1, 1)

    run(cancelled())


@both_apis
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "mark, kind",
    [
        ("[[failed context_length_exceeded too long]]", ModelContextWindowExceededError),
        ("[[error 429]]", ModelRateLimitError),
        ("[[error 503]]", ModelUnavailableError),
    ],
    ids=["overflow", "429", "503"],
)
def test_errors_of_the_model(word, api, stream, mark, kind):
    async def ask():
        agent = Agent(of(api))
        if not stream:
            return await agent.run(f"{word} {mark}")
        async with agent.run_stream(f"{word} {mark}") as result:
            return await result.get_output()

    with pytest.raises(kind):
        run(ask())


@both_apis
def test_errors(api):
    with pytest.raises(ModelNotFoundError) as e:
        Agent(of(api, "gpt-none")).run_sync("x")
    assert e.value.provider_error_code == "model_not_found"
    with pytest.raises(ModelAuthenticationError):
        Agent(of(api, api_key="sk-wrong")).run_sync("x")


@both_apis
def test_stream_fails_in_the_middle(word, api):
    """What came before a failure is no whole answer."""

    async def ask(seen):
        async with Agent(of(api)).run_stream(f"{word} [[text so far]] [[drop]]") as result:
            async for delta in result.stream_text(delta=True, debounce_by=None):
                seen.append(delta)

    seen = []
    with pytest.raises(ModelAPIError):
        run(ask(seen))
    assert "".join(seen) == "so far"


def test_fallback(word):
    script(word, ["text from the other"])
    agent = Agent(FallbackModel(of("chat", "gpt-none"), of("responses")))
    assert agent.run_sync(word).output == "from the other"


@alone
@both_apis
def test_loss_of_the_worker(word, api):
    async def ask():
        answer = asyncio.create_task(Agent(of(api, max_retries=2)).run(f"{word} [[gate {word}]] [[text done]]"))
        await asyncio.to_thread(turns, word, 1)
        kill_worker()
        release(word)
        return (await answer).output

    assert run(ask()) == "done"


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
