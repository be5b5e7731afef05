// Claude Code, for the cases of itself and of claude-code-router.
import { readdirSync } from "node:fs";
import path from "node:path";
import { installed } from "./program.mjs";

const scope = path.join(installed, "@anthropic-ai");
const directory = path.join(scope, readdirSync(scope).find((name) => name.startsWith("claude-code-linux-")));
export const program = path.join(directory, "claude");

// quiet is the environment in which it sends requests for the model alone.
export const quiet = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_TELEMETRY: "1", DISABLE_ERROR_REPORTING: "1", DISABLE_AUTOUPDATER: "1",
};

// task is a prompt whose answer reads and edits a file and runs a command.
export const task = (word, file) =>
  `${word} [[call Read ${JSON.stringify({ file_path: file })}]] [[then]] ` +
  `[[call Edit ${JSON.stringify({ file_path: file, old_string: "world", new_string: "proxy" })}]] [[then]] ` +
  `[[call Bash {"command":"wc -w ${path.basename(file)}","description":"count words"}]] [[then]] [[text all ]] [[text done]]`;

export const allowed = ["--allowedTools", "Read,Edit,Bash,mcp__calc__add"];

// outputs are the results of tools that the turn brought.
export const outputs = (turn) => turn.input.filter((i) => i.type === "function_call_output").map((i) => JSON.stringify(i.output));
