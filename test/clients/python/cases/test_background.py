"""openai-python with background responses and conversations."""

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from bed import model, release, run, run_example, turns


def client(**options):
    return OpenAI(**{"max_retries": 0, "timeout": 180, **options})


def begin(prompt, **more):
    return client().responses.create(model=model, input=prompt, background=True, **more)


def ended(id):
    """ended is the response when it has ended: its stream ends then."""
    with client().responses.retrieve(id, stream=True) as stream:
        assert list(stream)
    return client().responses.retrieve(id)


def test_polling(word):
    begun = begin(f"{word} [[gate {word}]] [[text done]]", stream=True)
    first = next(iter(begun))
    begun.close()
    turns(word, n=1)
    assert client().responses.retrieve(first.response.id).status == "in_progress"
    release(word)
    answer = ended(first.response.id)
    assert (answer.status, answer.output_text, answer.background) == ("completed", "done", True)


def test_cancel(word):
    begun = begin(f"{word} [[text so far]] [[silence]]")
    assert begun.status in ("queued", "in_progress")
    turns(word, n=1)
    assert client().responses.cancel(begun.id).status == "cancelled"
    assert client().responses.retrieve(begun.id).status == "cancelled"
    assert turns(word, n=1, cut=1)


def test_resumed_stream(word):
    """A stream goes on after the last event that its client has, live; no event is lost or comes twice."""
    first = []
    for event in begin(f"{word} [[reasoning why]] [[text one ]] [[gate {word}]] [[text two]]", stream=True):
        first.append(event)
        if event.type == "response.output_text.delta":
            break
    id = first[0].response.id
    with client().responses.retrieve(id, stream=True, starting_after=first[-1].sequence_number) as stream:
        release(word)
        rest = list(stream)
    whole = list(client().responses.retrieve(id, stream=True))
    assert first + rest == whole
    assert [event.sequence_number for event in whole] == list(range(len(whole)))
    with client().responses.stream(response_id=id, starting_after=first[-1].sequence_number) as stream:
        assert [event.sequence_number for event in stream] == [event.sequence_number for event in rest]
        assert stream.get_final_response().output_text == "one two"


def test_example(monkeypatch, capsys):
    """The example of the page goes on after its connection is cut, twice."""
    events, cuts = openai.Stream.__iter__, iter([4, 6])

    def cut(stream):
        end = next(cuts, 100)
        for n, event in enumerate(events(stream)):
            if n == end:
                raise httpx.ReadError("cut")
            yield event

    monkeypatch.setattr(openai.Stream, "__iter__", cut)
    run_example()
    assert capsys.readouterr().out == "hello from the model server"


def test_async(word):
    async def ask():
        async with AsyncOpenAI(max_retries=0) as c:
            made = await c.conversations.create()
            response = await c.responses.create(
                model=model, input=f"{word} [[text one]]", background=True, stream=True, conversation=made.id
            )
            first = await anext(aiter(response))
            await response.close()
            stream = await c.responses.retrieve(first.response.id, stream=True, starting_after=first.sequence_number)
            last = [event async for event in stream][-1]
            items = [item async for item in c.conversations.items.list(made.id, order="asc")]
            return last.response.output_text, ["".join(part.text for part in item.content) for item in items]

    assert run(ask()) == ("one", [f"{word} [[text one]]", "one"])


def test_refusals(word):
    answer = client().responses.create(model=model, input=word)
    with pytest.raises(openai.BadRequestError, match="background"):
        client().responses.retrieve(answer.id, stream=True)
    with pytest.raises(openai.BadRequestError):
        begin(word, store=False)
    with pytest.raises(openai.NotFoundError):
        client().responses.create(model=model, input=word, conversation="conv_none")


def test_conversation(word):
    c = client()
    items = [{"type": "message", "role": "user", "content": f"{word} I am Ada"}]
    made = c.conversations.create(items=items, metadata={"topic": "demo"})
    first = c.responses.create(model=model, input=f"{word} [[text one]]", conversation=made.id)
    assert first.conversation.id == made.id
    assert c.responses.create(model=model, input="[[text two]]", conversation=made.id).output_text == "two"
    sent = str(turns(word)[1]["input"])
    assert sent.index("I am Ada") < sent.index("'one'")
    assert len(list(c.conversations.items.list(made.id, limit=2))) == 5
    assert c.conversations.retrieve(made.id).metadata == {"topic": "demo"}
    assert c.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        c.conversations.retrieve(made.id)


def test_input_tokens():
    def count(text):
        return client().responses.input_tokens.count(model=model, input=text).input_tokens

    few, many = count("hello"), count("hello " * 1000)
    assert 0 < few < 1000
    assert many > few + 900


def test_compact(word):
    c = client()
    history = [
        {"role": "user", "content": f"{word} a long story"},
        {"role": "assistant", "content": "so long"},
        {"role": "user", "content": "and?"},
    ]
    compacted = c.responses.compact(model=model, input=history)
    assert compacted.output[-1].type == "compaction"
    again = [item.to_dict() for item in compacted.output] + [{"role": "user", "content": "[[text short]]"}]
    assert c.responses.create(model=model, input=again).output_text == "short"
