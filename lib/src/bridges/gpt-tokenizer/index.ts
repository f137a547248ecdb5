// Entry point `everturn/gpt-tokenizer`: a tokenizer for context policies, by the package gpt-tokenizer.

export { gptTokenizer } from "./gpt-tokenizer.ts";
