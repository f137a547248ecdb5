// The slash commands of the chat: their names and help texts, and the parser of typed input. All other input is a
// message to the model.

export type CommandName = keyof typeof commands;

export const commands = {
  help: { argument: "", summary: "list commands and keys" },
  new: { argument: "", summary: "start a new session" },
  sessions: { argument: "", summary: "list the sessions that changed last" },
  resume: { argument: "ID", summary: "continue another session; the beginning of its id is enough" },
  fork: { argument: "", summary: "continue in a copy of this session" },
  continue: { argument: "", summary: "continue without a message, after a limit, a cancel or an error" },
  show: { argument: "[N]", summary: "print the conversation, or its last N messages" },
  model: { argument: "[NAME]", summary: "print the model, or choose another one" },
  tools: { argument: "", summary: "list the tools of the model" },
  usage: { argument: "", summary: "print tokens and cost of this session" },
  export: { argument: "FILE", summary: "write the conversation (.md) or the record of the newest turn (.json)" },
  quit: { argument: "", summary: "exit; the session is stored" },
} as const satisfies { readonly [name: string]: { readonly argument: string; readonly summary: string } };

export const commandNames: readonly CommandName[] = Object.keys(commands).filter(isCommandName);

function isCommandName(word: string): word is CommandName {
  return Object.hasOwn(commands, word);
}

/** Typed input. */
export type ParsedInput =
  | { readonly type: "nothing" }
  | { readonly type: "message"; readonly text: string }
  | { readonly type: "command"; readonly name: CommandName; readonly argument: string }
  | { readonly type: "unknown"; readonly word: string; readonly suggestions: readonly CommandName[] };

/** Aliases of commands. */
const aliases: { readonly [word: string]: CommandName } = {
  exit: "quit",
  q: "quit",
  retry: "continue",
  "?": "help",
};

/**
 * Parses typed input. A path (`/etc/hosts`), a slash after a space, and a text of several lines are messages, not
 * commands.
 */
export function parseInput(typed: string): ParsedInput {
  if (typed.trim() === "") return { type: "nothing" };
  const [, word, argument = ""] = /^\/([\w?-]+)(?:[ \t]+([^\n]*))?$/.exec(typed.trimEnd()) ?? [];
  if (word === undefined) return { type: "message", text: typed.trim() };
  const name = aliases[word] ?? word;
  if (isCommandName(name)) return { type: "command", name, argument: argument.trim() };
  return { type: "unknown", word, suggestions: commandNames.filter((command) => isSimilar(word, command)) };
}

/** The commands that begin with the typed text. */
export function matching(typed: string): readonly CommandName[] {
  const [, word] = /^\/([\w-]*)$/.exec(typed) ?? [];
  return word === undefined ? [] : commandNames.filter((name) => name.startsWith(word));
}

/** Completes a command to the longest common prefix of its matches. */
export function complete(typed: string): string {
  const [first, ...others] = matching(typed);
  if (first === undefined) return typed;
  if (others.length === 0) return `/${first} `;
  let length = first.length;
  while (!others.every((name) => name.startsWith(first.slice(0, length)))) length -= 1;
  return `/${first.slice(0, length)}`;
}

function isSimilar(word: string, name: string): boolean {
  return name.startsWith(word) || word.startsWith(name) || distance(word, name) <= 2;
}

/** The Levenshtein distance of two words. Quadratic, for short words. */
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
