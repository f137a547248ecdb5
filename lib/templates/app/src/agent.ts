// The agent. It names no model: the command chooses one (`--model`, EVERTURN_MODEL, or the first API key that is set),
// and without a key a scripted model answers.

import { engine } from "everturn";

import { bookTable } from "./tools.ts";

export const agent = engine({
  instructions: "You are the assistant of a small restaurant. Book tables with the tool book_table. Be brief.",
  tools: [bookTable],
});
