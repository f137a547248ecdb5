// What can be said to the chat itself: a slash and a word. Anything else is for the model.

export type CommandName = keyof typeof commands;

export const commands = {
  help: { argument: "", summary: "what there is to say, and the keys" },
  new: { argument: "", summary: "a new session" },
  sessions: { argument: "", summary: "the sessions that changed last" },
  resume: { argument: "ID", summary: "go on with another session; the beginning of its id is enough" },
  fork: { argument: "", summary: "go on in a copy of this session" },
  continue: { argument: "", summary: "go on without saying anything: after a limit, a cancel, an error" },
  show: { argument: "[N]", summary: "the conversation, or its last N messages" },
  model: { argument: "[NAME]", summary: "which model answers, or another one from now on" },
  tools: { argument: "", summary: "the tools the model has" },
  usage: { argument: "", summary: "what this session has cost" },
  export: { argument: "FILE", summary: "write the conversation (.md) or the newest turn's record (.json) to a file" },
  quit: { argument: "", summary: "leave; the session stays" },
} as const satisfies { readonly [name: string]: { readonly argument: string; readonly summary: string } };

export const commandNames: readonly CommandName[] = Object.keys(commands).filter(isCommandName);

function isCommandName(word: string): word is CommandName {
  return Object.hasOwn(commands, word);
}

export type Spoken =
  | { readonly type: "nothing" }
  | { readonly type: "message"; readonly text: string }
  | { readonly type: "command"; readonly name: CommandName; readonly argument: string }
  | { readonly type: "unknown"; readonly word: string; readonly suggestions: readonly CommandName[] };

const otherNames: { readonly [word: string]: CommandName } = {
  exit: "quit",
  q: "quit",
  retry: "continue",
  "?": "help",
};

/** What was typed. A slash in the middle of a path, behind a space, or in a text of several lines makes no command. */
export function readSpoken(typed: string): Spoken {
  if (typed.trim() === "") return { type: "nothing" };
  const [, word, argument = ""] = /^\/([\w?-]+)(?:[ \t]+([^\n]*))?$/.exec(typed.trimEnd()) ?? [];
  if (word === undefined) return { type: "message", text: typed.trim() };
  const name = otherNames[word] ?? word;
  if (isCommandName(name)) return { type: "command", name, argument: argument.trim() };
  return { type: "unknown", word, suggestions: commandNames.filter((known) => isNear(word, known)) };
}

/** The commands that a text may become. */
export function matching(typed: string): readonly CommandName[] {
  const [, word] = /^\/([\w-]*)$/.exec(typed) ?? [];
  return word === undefined ? [] : commandNames.filter((name) => name.startsWith(word));
}

/** What Tab makes of a text: as much of a command as is sure. */
export function complete(typed: string): string {
  const [first, ...others] = matching(typed);
  if (first === undefined) return typed;
  if (others.length === 0) return `/${first} `;
  let length = first.length;
  while (!others.every((name) => name.startsWith(first.slice(0, length)))) length -= 1;
  return `/${first.slice(0, length)}`;
}

function isNear(word: string, name: string): boolean {
  return name.startsWith(word) || word.startsWith(name) || distance(word, name) <= 2;
}

/** How many letters have to change to get from one word to the other. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [at, other] of [...to].entries()) {
      const [same, added, removed] = [row[at] ?? 0, next[at] ?? 0, row[at + 1] ?? 0];
      next.push(Math.min(letter === other ? same : same + 1, added + 1, removed + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
