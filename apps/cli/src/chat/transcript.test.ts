import { system, toolResult, user, assistant } from "everturn";
import { toolCall } from "everturn/advanced";
import { expect, test } from "vitest";

import { colours } from "../terminal/style.ts";
import { renderTranscript, toMarkdown } from "./transcript.ts";

const call = toolCall({ id: "c1", name: "weather", arguments: { city: "Rome" } });
const messages = [
  system("Be brief."),
  user("What is the weather in Rome today?"),
  assistant("", { toolCalls: [call] }),
  toolResult("c1", "sunny\u001B[2J"),
  assistant("**Sunny.**"),
];

test("renders messages as the chat showed them live", () => {
  expect(renderTranscript(messages, { width: 20, colours: colours(false) })).toBe(
    "\n› What is the\n  weather in Rome\n  today?\n\n✓ weather city: Rom…\n\nSunny.\n",
  );
  expect(renderTranscript(messages, { width: 80, colours: colours(false) })).toContain(
    "✓ weather city: Rome → sunny␛[2J\n",
  );
});

test("shows the arguments that a tool ran with if an approval changed them", () => {
  const edited = [
    assistant("", { toolCalls: [toolCall({ id: "c1", name: "refund", arguments: { euros: 189 } })] }),
    { ...toolResult("c1", "paid"), ranArguments: { euros: 150.5, to: "a\u202Eb" } },
  ];
  expect(renderTranscript(edited, { width: 80, colours: colours(false) })).toBe(
    "\n✓ refund euros: 150.5, to: a⟨U+202E⟩b → paid\n",
  );
  expect(toMarkdown(edited)).toContain('"euros": 150.5');
});

test("exports Markdown with arguments and results in code blocks", () => {
  expect(toMarkdown(messages.slice(1))).toBe(
    [
      "## User\n\nWhat is the weather in Rome today?",
      '### weather (success)\n\n```\n{\n  "city": "Rome"\n}\n```\n\n```\nsunny\u001B[2J\n```',
      "## Assistant\n\n**Sunny.**\n",
    ].join("\n\n"),
  );
});
