// The agent. It names no model: the command chooses one (`--model`, EVERTURN_MODEL, or the first API key that is set),
// and without a key a scripted model answers.

import { engine } from "everturn";

import { bookTable, suggestMenu } from "./tools.ts";

export const agent = engine({
  instructions: `You are the assistant of a small restaurant. Be brief.
Book tables with the tool book_table, and suggest menus with suggest_menu.`,
  tools: [bookTable, suggestMenu],
});
