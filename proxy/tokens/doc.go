// Package tokens estimates how many tokens the input of a turn has, as codex counts none before a turn has run.
//
// Texts are counted exactly, in o200k_base. The rest is an estimate. OpenAI documents how messages and functions of
// chat completions count ("How to count tokens with tiktoken" of its cookbook), and the format in which a model reads
// tools (the library harmony); images count by squares of 32 × 32 pixels, as codex scales them for the model. Reasoning
// counts by its size, as in codex. A turn of a model with another vocabulary has other numbers.
package tokens
