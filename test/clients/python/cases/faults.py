"""What the libraries of OpenAI and Anthropic raise for each fault of the model endpoint: the cells of the table on
standard input, the names of the classes on standard output, "" where nothing is raised."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai

model = "gpt-test"
parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
client = openai.OpenAI(max_retries=1, timeout=180)
claude = anthropic.Anthropic(
    base_url=os.environ["OPENAI_BASE_URL"].removesuffix("/v1"),
    api_key=os.environ["OPENAI_API_KEY"],
    max_retries=1,
    timeout=180,
)


def ask(api, prompt, stream, headers):
    messages = [{"role": "user", "content": prompt}]
    if api == "messages":
        tool = {"name": "get_weather", "input_schema": parameters}
        return claude.messages.create(
            model=model, max_tokens=1000, messages=messages, stream=stream, tools=[tool], extra_headers=headers
        )
    if api == "chat":
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
        return client.chat.completions.create(
            model=model, messages=messages, stream=stream, tools=[tool], extra_headers=headers
        )
    tool = {"type": "function", "name": "get_weather", "parameters": parameters, "strict": False}
    return client.responses.create(model=model, input=prompt, stream=stream, tools=[tool], extra_headers=headers)


def raised(cell):
    try:
        answer = ask(cell["api"], cell["prompt"], cell["stream"], {"X-Request-Id": cell["id"]})
        if cell["stream"]:
            for _ in answer:
                pass
        return ""
    except (openai.OpenAIError, anthropic.AnthropicError) as e:
        return type(e).__name__


cells = json.load(sys.stdin)
with ThreadPoolExecutor(len(cells)) as pool:
    json.dump(list(pool.map(raised, cells)), sys.stdout)
