"""The OpenAI Agents SDK, on responses over HTTP and WebSockets and on chat completions."""

import asyncio
import json

import openai
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    OutputGuardrailTripwireTriggered,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel

from bed import alone, images, kill_worker, model, outputs, pixel, release, rome, run, run_example, script, texts, turns

kinds = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel, "websocket": OpenAIResponsesWSModel}
every_api = pytest.mark.parametrize("api", kinds)
two_calls = ['call get_weather {"city":"Paris"}', 'call get_weather {"city":"Rome"}']


class City(BaseModel):
    city: str
    population: int


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def of(api, name=model, **options):
    return kinds[api](name, AsyncOpenAI(**{"max_retries": 0, "timeout": 180, **options}))


def asked(api, content, **options):
    return run(Runner.run(Agent("helper", model=of(api), **options), content))


@every_api
def test_run(word, api):
    result = asked(api, f"{word} [[text pa]] [[text ris]] [[usage 21 8 13 5]]", instructions="be brief")
    assert result.final_output == "paris"
    assert result.context_wrapper.usage.total_tokens == 34
    assert any("be brief" in text for role, text in texts(turns(word)[0]) if role == "developer")


@every_api
def test_tools(word, api):
    script(word, two_calls, ["text both sunny"])
    assert asked(api, word, tools=[get_weather]).final_output == "both sunny"
    assert outputs(turns(word)[1]) == [({"city": "Paris"}, "sunny in Paris"), ({"city": "Rome"}, "sunny in Rome")]


@every_api
def test_stream(word, api):
    script(word, two_calls, ["text both ", "text sunny"])

    async def ask():
        result = Runner.run_streamed(Agent("helper", model=of(api), tools=[get_weather]), word)
        seen = []
        async for event in result.stream_events():
            if event.type == "run_item_stream_event":
                seen.append(event.item.type)
            elif event.data.type == "response.output_text.delta" if event.type == "raw_response_event" else False:
                seen.append(event.data.delta)
        return seen, result.final_output

    seen, final = run(ask())
    assert seen == ["tool_call_item"] * 2 + ["tool_call_output_item"] * 2 + ["both ", "sunny", "message_output_item"]
    assert final == "both sunny"


@every_api
def test_structured_output(word, api):
    assert asked(api, f"{word} [[text {json.dumps(rome)}]]", output_type=City).final_output == City(**rome)
    assert turns(word)[0]["text"]["format"]["type"] == "json_schema"


@every_api
def test_handoff(word, api):
    script(word, ["call transfer_to_expert {}"], ["text the expert knows"])
    expert = Agent("expert", model=of(api), instructions="you know")
    result = asked(api, word, handoffs=[handoff(expert)])
    assert result.final_output == "the expert knows"
    assert result.last_agent is expert
    assert any("you know" in text for _, text in texts(turns(word)[1]))


@every_api
def test_agent_as_tool(word, api):
    translator = Agent("translator", model=of(api))
    tool = translator.as_tool("translate", "translates")
    script(word, ['call translate {"input":"' + word + ' hello"}'], ["text bonjour"], ["text it is bonjour"])
    assert asked(api, word, tools=[tool]).final_output == "it is bonjour"


@every_api
def test_session(word, api):
    script(word, ["text nice"], ["text you are Ada"])
    session = SQLiteSession(word)

    async def talk():
        agent = Agent("helper", model=of(api))
        await Runner.run(agent, f"{word} I am Ada", session=session)
        return (await Runner.run(agent, "and I am?", session=session)).final_output

    assert run(talk()) == "you are Ada"
    assert [text for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


@pytest.mark.parametrize("api", ["responses", "websocket"])
def test_previous_response(word, api):
    script(word, ["text nice"], ["text you are Ada"])

    async def talk():
        agent = Agent("helper", model=of(api))
        first = await Runner.run(agent, f"{word} I am Ada")
        return await Runner.run(agent, "and I am?", previous_response_id=first.last_response_id)

    assert run(talk()).final_output == "you are Ada"
    assert [text for _, text in texts(turns(word)[1])][-3:] == [f"{word} I am Ada", "nice", "and I am?"]


@every_api
def test_guardrails(word, api):
    @input_guardrail
    async def no_secrets(_context, _agent, _content):
        checked = await Runner.run(Agent("guard", model=of(api)), f"{word} check")
        return GuardrailFunctionOutput(None, tripwire_triggered=checked.final_output == "secret")

    @output_guardrail
    async def no_paris(_context, _agent, output):
        return GuardrailFunctionOutput(None, tripwire_triggered="Paris" in output)

    script(f"{word} check", ["text secret"])
    with pytest.raises(InputGuardrailTripwireTriggered):
        asked(api, f"[[text it is]] {word}", input_guardrails=[no_secrets])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        asked(api, f"{word} [[text it is Paris]]", output_guardrails=[no_paris])


@every_api
def test_turns_without_end(word, api):
    script(word, *[two_calls[:1]] * 3)
    with pytest.raises(MaxTurnsExceeded):
        run(Runner.run(Agent("helper", model=of(api), tools=[get_weather]), word, max_turns=2))


@every_api
def test_image(word, api):
    content = [
        {"type": "input_text", "text": f"{word} [[text a pixel]]"},
        {"type": "input_image", "image_url": pixel, "detail": "auto"},
    ]
    assert asked(api, [{"role": "user", "content": content}]).final_output == "a pixel"
    assert images(turns(word)[0]) == [pixel]


@pytest.mark.parametrize("api", ["responses", "websocket"])
def test_reasoning(word, api):
    settings = ModelSettings(reasoning=Reasoning(effort="low", summary="auto"))
    result = asked(api, f"{word} [[reasoning because]] [[text so]]", model_settings=settings)
    [thought] = [i for i in result.new_items if i.type == "reasoning_item"]
    assert thought.raw_item.summary[0].text == "because"
    assert result.final_output == "so"


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_cancelled(word, api):
    async def cancelled():
        ask = asyncio.create_task(Runner.run(Agent("helper", model=of(api)), f"{word} [[text so far]] [[silence]]"))
        await asyncio.to_thread(turns, word, 1)
        ask.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ask
        await asyncio.to_thread(turns, word, 1, 1)

    run(cancelled())


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize(
    "mark, kind, code",
    [
        ("[[failed context_length_exceeded too long]]", openai.BadRequestError, "context_length_exceeded"),
        ("[[error 429]]", openai.RateLimitError, "rate_limited"),
        ("[[error 503]]", openai.InternalServerError, "upstream_error"),
    ],
    ids=["overflow", "429", "503"],
)
def test_errors_of_the_model(word, api, mark, kind, code):
    with pytest.raises(kind) as e:
        asked(api, f"{word} {mark}")
    assert e.value.code == code


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_errors(api):
    with pytest.raises(openai.NotFoundError):
        run(Runner.run(Agent("helper", model=of(api, "gpt-none")), "x"))
    with pytest.raises(openai.AuthenticationError):
        run(Runner.run(Agent("helper", model=of(api, api_key="sk-wrong")), "x"))


@every_api
def test_stream_fails_in_the_middle(word, api):
    async def ask():
        result = Runner.run_streamed(Agent("helper", model=of(api)), f"{word} [[text so far]] [[drop]]")
        async for _ in result.stream_events():
            pass
        return result.final_output

    with pytest.raises(Exception, match="send the request again"):
        run(ask())


@alone
@every_api
def test_loss_of_the_worker(word, api):
    async def ask():
        agent = Agent("helper", model=of(api, max_retries=2))
        answer = asyncio.create_task(Runner.run(agent, f"{word} [[gate {word}]] [[text done]]"))
        await asyncio.to_thread(turns, word, 1)
        kill_worker()
        release(word)
        return (await answer).final_output

    assert run(ask()) == "done"


def test_example(capsys):
    run_example()
    assert "hello from the model server" in capsys.readouterr().out
