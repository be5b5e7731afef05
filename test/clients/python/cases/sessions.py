"""Sessions with tools, several at a time, through the end of an account's quota: every request is sent once, none
fails. The argument is how many calls of a tool a session has. The sessions go from call to call together, so that all
are in their middle at the same time."""

import asyncio
import json
import sys

from agents import Agent, FunctionTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner
from openai import AsyncOpenAI

from bed import model

calls = int(sys.argv[1])
cities = [f"City-{i}" for i in range(calls)]
client = AsyncOpenAI(max_retries=0, timeout=180)
parameters = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def script(name):
    loop = " ".join(f'[[reasoning hm]] [[call get_weather {{"city":"{city}"}}]] [[then]]' for city in cities)
    return f"session-python-{name} {loop} [[text the]] [[text end]]"


async def chat(prompt, get_weather):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]
    messages = [{"role": "user", "content": prompt}]
    while True:
        answer = await client.chat.completions.create(model=model, messages=messages, tools=tools)
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = await get_weather(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def responses(prompt, get_weather):
    tools = [{"type": "function", "name": "get_weather", "parameters": parameters, "strict": True}]
    more = {"input": [{"role": "user", "content": prompt}]}
    while True:
        answer = await client.responses.create(model=model, tools=tools, **more)
        made = [item for item in answer.output if item.type == "function_call"]
        if not made:
            return answer.output_text
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": await get_weather(call.arguments)}
            for call in made
        ]
        more = {"previous_response_id": answer.id, "input": results}


def agent(kind):
    async def run(prompt, get_weather):
        async def invoke(_, arguments):
            return await get_weather(arguments)

        tool = FunctionTool("get_weather", "the weather in a city", parameters, invoke)
        helper = Agent("helper", model=kind(model, client), tools=[tool])
        return (await Runner.run(helper, prompt, max_turns=calls + 1)).final_output

    return run


sessions = {
    "chat": chat,
    "previous-response": responses,
    "agents-chat": agent(OpenAIChatCompletionsModel),
    "agents-responses": agent(OpenAIResponsesModel),
}


async def main():
    together = asyncio.Barrier(len(sessions))

    async def session(name, run):
        seen = []

        async def get_weather(arguments):
            seen.append(json.loads(arguments)["city"])
            await together.wait()
            return f"sunny in {seen[-1]}"

        assert await run(script(name), get_weather) == "theend", name
        assert seen == cities, name

    async with asyncio.TaskGroup() as group:
        for name, run in sessions.items():
            group.create_task(session(name, run))


asyncio.run(main())
