// Completion scripts, made from the program itself: a command or a flag that exists can be completed, and nothing else is listed here.

import type { Argument, Command, Option } from "commander";

/** A place on the command line: what may be said there. */
type Place = {
  /** The commands that lead there: `sessions delete`. */
  readonly path: readonly string[];
  readonly words: readonly Word[];
  readonly flags: readonly Flag[];
};

type Word = { readonly name: string; readonly about: string };
type Flag = { readonly names: readonly string[]; readonly about: string; readonly takes: "nothing" | "file" | "text" };

export function completion(program: Command, shell: string): string {
  const places = placesOf(program);
  switch (shell) {
    case "zsh":
      return zsh(program.name(), places);
    case "fish":
      return fish(program.name(), places);
    default:
      return bash(program.name(), places);
  }
}

/** Every place, the program itself first. Its flags may stand anywhere. */
function placesOf(program: Command): readonly Place[] {
  const help = program.createHelp();
  const flagsOf = (command: Command) => help.visibleOptions(command).map(flagOf);
  const visit = (command: Command, path: readonly string[]): readonly Place[] => {
    const subcommands = help.visibleCommands(command).filter((sub) => sub.name() !== "help");
    const words = [
      ...subcommands.map((sub) => ({ name: sub.name(), about: sub.summary() || sub.description() })),
      ...command.registeredArguments.flatMap(choicesOf),
    ];
    // `list` is what a command of several does when none is named: its flags may follow at once.
    const list = subcommands.find((sub) => sub.name() === "list");
    const flags = list === undefined ? flagsOf(command) : flagsOf(list);
    return [{ path, words, flags }, ...subcommands.flatMap((sub) => visit(sub, [...path, sub.name()]))];
  };
  const all = visit(program, []);
  const anywhere = new Set(all[0]?.flags.flatMap(({ names }) => names));
  return all.map((place, index) =>
    index === 0
      ? place
      : { ...place, flags: place.flags.filter(({ names }) => !names.some((name) => anywhere.has(name))) },
  );
}

function flagOf(option: Option): Flag {
  const names = [option.long, option.short].filter((name) => typeof name === "string");
  return {
    names,
    about: option.description,
    takes: option.required ? (/<file>/.test(option.flags) ? "file" : "text") : "nothing",
  };
}

function choicesOf({ argChoices = [], description }: Argument): readonly Word[] {
  return argChoices.map((name) => ({ name, about: description }));
}

function namesOf(flags: readonly Flag[]): readonly string[] {
  return flags.flatMap(({ names }) => names);
}

/** The flags behind which something else than a command follows. */
function takersOf(places: readonly Place[], takes: Flag["takes"]): readonly string[] {
  const taking = places.flatMap(({ flags }) => flags).filter((flag) => flag.takes === takes);
  return [...new Set(namesOf(taking))];
}

function pattern(names: readonly string[]): string {
  return names.length === 0 ? "--" : names.join("|");
}

/** Walks over what was typed to find the place: flags are passed over, and what they take. */
function walk(places: readonly Place[], words: string): string {
  const known = places.filter(({ path }) => path.length > 0).map(({ path }) => `"${path.join(" ")}"`);
  const takers = pattern([...takersOf(places, "file"), ...takersOf(places, "text")]);
  return `  local place="" skip="" word
  for word in ${words}; do
    if [ -n "$skip" ]; then skip=""; continue; fi
    case "$word" in
      ${takers}) skip=1 ;;
      -*) ;;
      *) case "\${place:+$place }$word" in ${known.join("|")}) place="\${place:+$place }$word" ;; esac ;;
    esac
  done`;
}

function bash(name: string, places: readonly Place[]): string {
  const cases = places.map(
    ({ path, words, flags }) =>
      `    "${path.join(" ")}") words="${words.map((word) => word.name).join(" ")}"; flags="${path.length === 0 ? "" : namesOf(flags).join(" ")}" ;;`,
  );
  return `# bash completion for ${name}; made by "${name} completion bash"
_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" words="" flags=""
  local anywhere="${namesOf(anywhereIn(places)).join(" ")}"
${walk(places, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')}
  case "$previous" in
    ${pattern(takersOf(places, "file"))}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${pattern(takersOf(places, "text"))}) return ;;
  esac
  case "$place" in
${cases.join("\n")}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags $anywhere" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")); [ -n "$words" ] || COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -o filenames -F _${name} ${name}
`;
}

function zsh(name: string, places: readonly Place[]): string {
  const cases = places.map(({ path, words, flags }) => {
    const listed = words.map((word) => described(word.name, word.about)).join(" ");
    const options = path.length === 0 ? "" : describedFlags(flags);
    return `    "${path.join(" ")}") words_here=(${listed}); flags_here=(${options}) ;;`;
  });
  return `#compdef ${name}
# zsh completion for ${name}; made by "${name} completion zsh"
_${name}() {
  local current="\${words[CURRENT]}" previous="\${words[CURRENT-1]}"
  local -a words_here flags_here anywhere
  anywhere=(${describedFlags(anywhereIn(places))})
${walk(places, '"${words[@]:1:$((CURRENT-2))}"')}
  case "$previous" in
    ${pattern(takersOf(places, "file"))}) _files; return ;;
    ${pattern(takersOf(places, "text"))}) return ;;
  esac
  case "$place" in
${cases.join("\n")}
  esac
  case "$current" in
    -*) _describe -o option flags_here -- anywhere ;;
    *) if (( \${#words_here} )); then _describe command words_here; else _files; fi ;;
  esac
}
compdef _${name} ${name}
`;
}

function anywhereIn(places: readonly Place[]): readonly Flag[] {
  return places[0]?.flags ?? [];
}

function describedFlags(flags: readonly Flag[]): string {
  return flags.flatMap(({ names, about }) => names.map((flag) => described(flag, about))).join(" ");
}

/** A word and what it does, as zsh lists them. */
function described(word: string, about: string): string {
  return quoted(`${word.replaceAll(":", String.raw`\:`)}:${about}`);
}

function fish(name: string, places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words, flags }) => {
    const siblings = places.filter(
      (place) => place.path.length === path.length + 1 && path.every((part, index) => place.path[index] === part),
    );
    const deeper = siblings.map(({ path: below }) => below.at(-1) ?? "").join(" ");
    const here = [
      ...path.map((part) => `__fish_seen_subcommand_from ${part}`),
      ...(deeper === "" ? [] : [`not __fish_seen_subcommand_from ${deeper}`]),
    ].join("; and ");
    const when = here === "" ? "" : ` -n ${quoted(here)}`;
    return [
      ...words.map((word) => `complete -c ${name}${when} -f -a ${quoted(word.name)} -d ${quoted(word.about)}`),
      ...flags.map(
        (flag) => `complete -c ${name}${path.length === 0 ? "" : when} ${fishFlag(flag)} -d ${quoted(flag.about)}`,
      ),
    ];
  });
  return `# fish completion for ${name}; made by "${name} completion fish"\n${lines.join("\n")}\n`;
}

function fishFlag({ names, takes }: Flag): string {
  const parts = names.map((name) => (name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  return [...parts, ...(takes === "nothing" ? [] : [takes === "file" ? "-r -F" : "-x"])].join(" ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
