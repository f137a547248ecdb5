// The mistakes of the first hour. Each program that does not compile has to be told which field is wrong: the compiler
// runs on it, and the text of its error is compared. Each wrong value that compiles, or that comes from a program
// without a compiler, is named by the error at run time.

import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { chat, engine, fake, says, tool } from "everturn";
import { putTool } from "everturn/advanced";
import { memoryStorage, runtime } from "everturn/runtime";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";

const root = join(import.meta.dirname, "../..");
const workplace = join(root, "lib/.snippets/first-hour");

const imports = `import { chat, engine, openai, tool } from "everturn";
import { memoryStorage } from "everturn/runtime";
import { runtime } from "everturn/runtime";
import { z } from "zod";
`;
const schema = `schema: z.object({ city: z.string() })`;
const agent = `const agent = engine({ adapter: openai(), model: "gpt-6.1-sol" });`;

/** A program, and the errors that the compiler reports: the start of each, with the line of the mistake alone. */
const mistakes: { readonly [mistake: string]: readonly [program: string, errors: readonly RegExp[]] } = {
  "a misspelt field of a tool": [
    `tool({ name: "weather", desciption: "…", ${schema}, handler: ({ city }) => city });`,
    [/'desciption' does not exist in type 'ToolDefinition<.*Did you mean to write 'description'\?/],
  ],
  "a tool without a description": [
    `tool({ name: "weather", ${schema}, handler: ({ city }) => city });`,
    [/^Argument of type[^]*\n {2}Property 'description' is missing in type/],
  ],
  "a tool with the field names of another library": [
    `tool({ name: "weather", description: "…", ${schema}, execute: ({ city }: { city: string }) => city });`,
    [/'execute' does not exist in type 'ToolDefinition</],
  ],
  "a handler that reads a field that the schema does not have": [
    `tool({ name: "weather", description: "…", ${schema}, handler: ({ town }) => town });`,
    [/^Property 'town' does not exist on type '\{ city: string; \}'/],
  ],
  "a word that is not a choice": [
    `tool({ name: "weather", description: "…", ${schema}, replay: "retry" });`,
    [/^Type '"retry"' is not assignable to type 'ReplayPolicy'/],
  ],
  "a misspelt field of an engine": [
    `engine({ adaptor: openai(), model: "gpt-6.1-sol" });`,
    [/'adaptor' does not exist in type.*Did you mean to write 'adapter'\?/],
  ],
  "a misspelt field beside the name of a model": [
    `engine("openai:gpt-6.1-sol", { tols: [] });`,
    [/'tols' does not exist in type.*Did you mean to write 'tools'\?/],
  ],
  "an adapter that is not called": [
    `engine({ adapter: openai, model: "gpt-6.1-sol" });`,
    [/^Type '\(options\?: OpenAIOptions\) => Adapter' is not assignable to type 'Adapter'/],
  ],
  "tools by name instead of a list": [
    `const weather = tool({ name: "weather", description: "…", ${schema}, handler: ({ city }) => city });
engine({ adapter: openai(), tools: { weather } });`,
    [/'weather' does not exist in type 'readonly Tool<object>\[\]'/],
  ],
  "an option of a run in the engine": [
    `engine({ adapter: openai(), model: "gpt-6.1-sol", maxTurns: 3 });`,
    [/'maxTurns' does not exist in type 'Partial<Engine</],
  ],
  "a tool that needs a context, and an engine without one": [
    `const mine = tool({ name: "mine", description: "…", ${schema}, handler: (_, { context }: ToolContext<{ readonly user: string }>) => context.user });
engine({ adapter: openai(), tools: [mine] });`,
    [/Property 'context' is missing in type/],
  ],
  "a misspelt option of a run": [
    `${agent}
await chat(agent, "hi", { maxSteps: 3 });`,
    [/'maxSteps' does not exist in type 'ChatOptions</],
  ],
  "the arguments in another order": [
    `${agent}
await chat("hi", agent);`,
    [/^Argument of type 'string' is not assignable to parameter of type 'Engine</],
  ],
  "a misspelt option of the runtime": [
    `${agent}
runtime({ host: memoryStorage(), engine: agent });`,
    [/'engine' does not exist in type 'RuntimeOptions'. Did you mean to write 'engines'\?/],
  ],
  "the result of a turn that was not awaited": [
    `${agent}
(await runtime({ host: memoryStorage(), engines: { default: agent } }).start("hi")).text;`,
    [/^Property 'text' does not exist on type 'TurnHandle</],
  ],
  "the output of a run that asks for none": [
    `${agent}
(await chat(agent, "hi")).output;`,
    [/^Property 'output' does not exist on type 'WithText<ChatResult>'/],
  ],
};

describe("the compiler names the mistake", () => {
  /** The errors by the number of the program. */
  const errors = new Map<number, string[]>();

  beforeAll(async () => {
    await rm(workplace, { recursive: true, force: true });
    await mkdir(workplace, { recursive: true });
    const config = {
      extends: "../../../tsconfig.test.json",
      include: ["*.ts"],
      compilerOptions: { noUnusedLocals: false },
    };
    await writeFile(join(workplace, "tsconfig.json"), JSON.stringify(config));
    for (const [index, [program]] of Object.values(mistakes).entries()) {
      const context = program.includes("ToolContext") ? 'import type { ToolContext } from "everturn";\n' : "";
      await writeFile(join(workplace, `m${index}.ts`), `${context}${imports}${program}\nexport {};\n`);
    }
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const output = await new Promise<string>((resolve) => {
      execFile(process.execPath, [tsc, "-p", workplace, "--pretty", "false"], { cwd: workplace }, (_, stdout) =>
        resolve(stdout),
      );
    });
    for (const error of output.split(/\n(?=m\d+\.ts\()/)) {
      const [, index, text = ""] = /^m(\d+)\.ts\(\d+,\d+\): error TS\d+: ([^]*)$/.exec(error) ?? [];
      if (index === undefined) throw new Error(`an unexpected line of the compiler: ${error}`);
      errors.set(Number(index), [...(errors.get(Number(index)) ?? []), text]);
    }
  }, 60_000);

  test.each(Object.entries(mistakes).map(([mistake, [, expected]], index) => ({ mistake, expected, index })))(
    "$mistake",
    ({ expected, index }) => {
      expect(errors.get(index)).toEqual(expected.map((text) => expect.stringMatching(text)));
    },
  );
});

/** Calls a function as a program without a compiler does. */
function untyped(call: unknown, ...args: readonly unknown[]): unknown {
  if (typeof call !== "function") throw new TypeError("not a function");
  return call(...args);
}

const weather = { name: "weather", description: "…", schema: z.object({ city: z.string() }), handler: () => "clear" };
const answering = () => engine({ adapter: fake({ script: [says("Hello.")] }), model: "fake:m" });

describe("the error at run time names the field, the tool and the choices", () => {
  test.each<readonly [string, object, RegExp]>([
    ["a date", { schema: z.object({ trip: z.object({ start: z.date() }) }) }, /"weather".* field trip\.start .*string/],
    ["a shape that is no schema", { schema: { city: z.string() } }, /"weather".*"city".*z\.object/],
    ["no schema", { schema: undefined }, /"weather": the schema is missing/],
    ["a schema that is no object", { schema: z.string() }, /"weather": the schema is of type string/],
    ["no description", { description: undefined }, /"weather": description must be a string/],
    ["no name", { name: undefined }, /tool: name must be a string/],
    ["a name with a space", { name: "get weather" }, /name: must be 1 to 64 letters.* not "get weather"/],
    ["a misspelt field", { desciption: "…" }, /"weather": unknown option "desciption"; the options are name, desc/],
    ["a word that is not a choice", { replay: "retry" }, /"weather": replay must be "safe" or "never" or "ask"/],
    ["an approval as text", { needsApproval: "yes" }, /"weather": needsApproval must be true, false or a function/],
    ["a time as text", { timeoutMs: "5" }, /"weather": timeoutMs must be a number greater than 0, not "5"/],
  ])("tool: %s", (_, fields, message) => {
    expect(() => untyped(tool, { ...weather, ...fields })).toThrow(message);
  });

  test.each<readonly [string, object, RegExp]>([
    ["a misspelt field", { adaptor: fake({ script: [] }) }, /no field "adaptor"; the fields are adapter, .*tools/],
    ["an option of a run", { maxTurns: 3 }, /"maxTurns"; it belongs in options: engine\(\{ options/],
    ["an adapter that is not called", { adapter: fake }, /adapter must be an adapter, the value of a call/],
    ["tools by name", { tools: { weather: tool(weather) } }, /tools must be a list of tools/],
    [
      "two tools of one name",
      { tools: [tool(weather), tool(weather)] },
      /tools\[0\] and tools\[1\] have the same name "weather"/,
    ],
    ["a tool that is not built", { tools: [tool(weather), weather] }, /tools\[1\] must be a tool, the value of tool\(/],
  ])("engine: %s", (_, fields, message) => {
    expect(() => untyped(engine, fields)).toThrow(message);
  });

  test("two tools of one name, of which one was added later", async () => {
    const two = putTool(engine({ adapter: fake({ script: [] }), tools: [tool(weather)] }), tool(weather));
    await expect(chat(two, "hi")).rejects.toThrow('two tools have the name "weather"');
  });

  test("an unknown budget, and an unknown option of a run", async () => {
    await expect(untyped(chat, answering(), "hi", { budgets: { dollars: 3 } })).rejects.toThrow(
      '"budgets.dollars"; the options are steps, tokens, cost',
    );
    await expect(untyped(chat, answering(), "hi", { maxSteps: 3 })).rejects.toThrow(/"maxSteps".*maxTurns/);
  });

  test("an unknown engine, and engines that are none", async () => {
    const sessions = runtime({ host: memoryStorage(), engines: { default: answering() } });
    await expect(sessions.start("hi", { engine: "sales" })).rejects.toThrow(/no engine "sales".*a key of engines/);
    await sessions.close();
    const host = memoryStorage();
    expect(() => untyped(runtime, { host, engines: answering() })).toThrow(/engines must be an object of engines by/);
    expect(() => untyped(runtime, { host, engine: answering() })).toThrow(/unknown option "engine".*engines/);
    expect(() => untyped(runtime, { storage: host, engines: {} })).toThrow(/unknown option "storage".*host/);
  });
});
