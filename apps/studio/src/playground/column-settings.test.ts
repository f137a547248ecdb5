import { expect, test } from "vitest";

import { enginesFor, optionsOf, newColumnSettings, withoutEngine } from "./column-settings.ts";

const allow = ["model", "instructions", "temperature", "maxTokens", "maxTurns", "activeTools"];
const empty = newColumnSettings({ name: "support" });

test("empty settings leave everything to the engine", () => {
  expect(optionsOf(empty, allow)).toEqual({ options: { engine: "support" }, issues: [] });
});

test("settings become turn options", () => {
  const settings = {
    ...empty,
    model: " openai:gpt-6.1-sol ",
    instructions: "Be brief.",
    temperature: "0.2",
    maxTokens: "400",
    maxTurns: "3",
    tools: ["search"],
  };
  expect(optionsOf(settings, allow)).toEqual({
    options: {
      engine: "support",
      model: "openai:gpt-6.1-sol",
      instructions: "Be brief.",
      temperature: 0.2,
      maxTokens: 400,
      maxTurns: 3,
      activeTools: ["search"],
    },
    issues: [],
  });
});

test("a model name may contain a colon", () => {
  expect(optionsOf({ ...empty, model: "ollama:llama3.3:70b" }, allow).options.model).toBe("ollama:llama3.3:70b");
});

test("options that the server does not allow are left out, and are not checked", () => {
  expect(optionsOf({ ...empty, model: "no provider", temperature: "hot" }, [])).toEqual({
    options: { engine: "support" },
    issues: [],
  });
});

test.for([
  ["model", "gpt-6.1-sol"],
  ["temperature", "3"],
  ["temperature", "warm"],
  ["maxTokens", "0"],
  ["maxTokens", "1.5"],
  ["maxTurns", "-1"],
] as const)("reports %s %s", ([field, text]) => {
  const { options, issues } = optionsOf({ ...empty, [field]: text }, allow);
  expect(options).toEqual({ engine: "support" });
  expect(issues.map((issue) => issue.field)).toEqual([field]);
});

test("a fork offers the engine of its original only, and sends no engine", () => {
  const engines = [{ name: "default" }, { name: "scenarios" }];
  expect(enginesFor(engines, "scenarios")).toEqual([{ name: "scenarios" }]);
  expect(enginesFor(engines, null)).toEqual(engines);
  const { options } = optionsOf({ ...newColumnSettings({ name: "scenarios" }), instructions: "Be brief." }, [
    "instructions",
  ]);
  expect(withoutEngine(options)).toEqual({ instructions: "Be brief." });
});
