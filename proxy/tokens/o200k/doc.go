// Package o200k counts the tokens of texts in o200k_base, the vocabulary of OpenAI's models since gpt-4o, as the
// library tiktoken does.
//
// The vocabulary, o200k_base.flate, is the one of tiktoken 0.14 (MIT licence, in LICENSE of this directory), 199 998
// tokens. The file holds the tokens of more than one byte in the order of their ranks, each as the ranks of the two
// tokens that it is merged from: first the low bytes of all left ranks, then their middle and their high bytes, then
// the same of the right ranks, all deflated. So it has 720 kB, where tiktoken's own file has 3.6 MB. TestVocabulary
// compares the checksum of that file, and writes o200k_base.flate from it.
//
// The vocabulary takes 3.3 MiB of memory, from the first count on until a minute after the last one.
package o200k
