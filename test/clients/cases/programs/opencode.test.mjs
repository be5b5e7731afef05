import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";
import { cut, turns, until } from "../bed.mjs";
import { calculator, installed, place, run } from "./program.mjs";

const platform = readdirSync(installed).find((name) => name.startsWith("opencode-linux-"));
const program = path.join(installed, platform, "bin/opencode");

// config is that of the page in docs/clients, without what needs the network.
const page = await readFile(new URL("../../pages/opencode.json", import.meta.url), "utf8");
function config(npm) {
  const c = JSON.parse(page);
  c.provider.codex.npm = npm;
  return JSON.stringify({
    ...c, autoupdate: false, share: "disabled", snapshot: false, lsp: false, formatter: false,
    mcp: { calc: { type: "local", command: [process.execPath, calculator] } },
  });
}

const newPlace = ({ npm = "@ai-sdk/openai-compatible", ...files } = {}) =>
  place({ "home/.config/opencode/opencode.json": config(npm), ...files });
// The prompt comes by stdin: opencode puts quotes of the command line into the prompt.
const opencode = (at, input, { args = [], key = process.env.API_KEY, ...more } = {}) =>
  run(at, program, ["run", "--title", "t", "--format", "json", ...args], {
    input,
    env: { CODEX_PROXY_KEY: key, OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_DEFAULT_PLUGINS: "1" }, ...more,
  });

// texts are those of the events that the program prints, a JSON object a line.
const events = (stdout) => stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
const texts = (stdout, type = "text") => events(stdout).filter((e) => e.type === type).map((e) => e.part.text);
const outputs = (turn) => turn.input.filter((i) => i.type === "function_call_output").map((i) => JSON.stringify(i.output));

// loop is a prompt whose answer reads and edits a file and adds numbers.
const loop = (filePath, word, end) =>
  `${word} [[call read ${JSON.stringify({ filePath })}]] [[then]]
  [[call edit ${JSON.stringify({ filePath, oldString: "world", newString: "proxy" })}]] [[call calc_add {"a":40,"b":2}]] [[then]] ${end}`;

async function assertLoop(read, word) {
  assert.equal(await read("work/greeting.txt"), "hello proxy\n");
  const seen = await turns(word);
  assert.equal(seen.length, 3);
  assert.match(outputs(seen[1])[0], /hello world/);
  assert.match(outputs(seen[2]).at(-1), /the sum is 42/);
}

const files = { "work/greeting.txt": "hello world\n" };

describe("opencode", () => {
  test("chat: edits a file and calls the tool of an MCP server, and the session goes on", async () => {
    const { at, read } = await newPlace(files);
    const ended = await opencode(at, loop(at("work/greeting.txt"), "opencode-chat", "[[text all ]] [[text done]]"));
    assert.equal(ended.code, 0, ended.stderr);
    assert.deepEqual(texts(ended.stdout), ["all done"]);
    await assertLoop(read, "opencode-chat");

    const again = await opencode(at, "opencode-again [[reasoning because]] [[text so]]", { args: ["--continue", "--thinking"] });
    assert.deepEqual(texts(again.stdout), ["so"], again.stderr);
    assert.deepEqual(texts(again.stdout, "reasoning"), ["because"]);
    const [turn] = await turns("opencode-again");
    assert.ok(["the sum is 42", "all done"].every((text) => JSON.stringify(turn.input).includes(text)));
  });

  test("responses: edits a file and calls the tool of an MCP server, and is interrupted", async () => {
    const { at, read } = await newPlace({ npm: "@ai-sdk/openai", ...files });
    await opencode(at, loop(at("work/greeting.txt"), "opencode-responses", "[[text so far]] [[silence]]"), {
      started: (stdout, interrupt) => until(async () => (await turns("opencode-responses")).length === 3).finally(interrupt),
    });
    await assertLoop(read, "opencode-responses");
    await cut("opencode-responses");
  });

  test("an error is shown", async () => {
    const { at } = await newPlace();
    const { stdout } = await opencode(at, "x", { key: "sk-wrong" });
    const [error] = events(stdout).filter((e) => e.type === "error");
    assert.equal(error.error.name, "APIError", stdout);
    assert.equal(error.error.data.statusCode, 401);
  });
});
