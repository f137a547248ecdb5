// The scripts of the scenarios. Each shows one behaviour of a turn in 5 to 15 seconds.

import type { Script } from "./script.ts";
import type { ScenarioView } from "everturn/client";

export type ScenarioScript = ScenarioView & Script;

/** The name of the scenario whose process is killed. */
export const crashName = "crash";

const order = "1042";

export const scenarioScripts: readonly ScenarioScript[] = [
  {
    name: "parallel-tools",
    title: "Parallel tools",
    description: "Five tools run side by side and report their progress; the answer compares their results.",
    prompt: "Which of our offices is best for the team meeting next week: Lisbon, Oslo or Kyoto?",
    replies: [
      {
        reasoning:
          "I need the weather, the travel time and a free room for each office. None of these depends on another, so I can ask for all of them at once.",
        text: "I will check the weather in all three cities, the travel times and the free rooms at the same time.",
        calls: [
          { name: "get_weather", args: { city: "Lisbon", days: 5 } },
          { name: "get_weather", args: { city: "Oslo", days: 5 } },
          { name: "get_weather", args: { city: "Kyoto", days: 5 } },
          { name: "compare_travel", args: { cities: ["Lisbon", "Oslo", "Kyoto"], travellers: 9 } },
          { name: "find_rooms", args: { city: "Lisbon", people: 9, equipment: ["screen", "whiteboard"] } },
        ],
      },
      {
        text:
          "**Lisbon** is the best choice.\n\n| office | weather | average journey |\n| --- | --- | ---: |\n| Lisbon | sunny, 19 °C | 3 h 10 min |\n" +
          "| Oslo | snow, −2 °C | 3 h 40 min |\n| Kyoto | rain, 12 °C | 14 h 20 min |\n\nThe room *Belém* is free from Tuesday to Thursday. It seats twelve people and has a screen and a whiteboard.",
      },
    ],
  },
  {
    name: "approval",
    title: "Approval",
    description: "A refund waits for a person, who can change the amount first. The payment is never run twice.",
    prompt: `Order ${order} arrived broken. Please refund it.`,
    replies: [
      {
        text: "I am sorry to read that. Let me look at the order first.",
        calls: [{ name: "find_order", args: { order } }],
      },
      {
        text: "The order was paid by card, and the carrier has reported the damage. I am asking for approval of the refund.",
        calls: [
          {
            name: "issue_refund",
            args: { order, amount: 189, currency: "EUR", method: "card", reason: "damaged", notifyCustomer: true },
          },
        ],
      },
      (results) => {
        const refund = results("issue_refund");
        // Above the result is a note about arguments that the person has changed.
        const paid = refund?.text.split("\n").at(-1) ?? "";
        const text =
          refund?.ok === true
            ? `The refund is paid: ${paid}. Banks usually need two to three days to show it. You do not have to send the broken item back.`
            : "The refund was not approved, so nothing has been paid. A colleague will read this conversation and write to you today.";
        return { text };
      },
    ],
  },
  {
    name: "question",
    title: "Question",
    description: "The agent asks the user, and the turn waits without a process until the answer arrives.",
    prompt: "Book a table for the team dinner on Friday.",
    replies: [
      {
        text: "I will look for restaurants with a free table for nine people.",
        calls: [{ name: "find_restaurants", args: { day: "Friday", people: 9 } }],
      },
      {
        text: "Three restaurants have a free table.",
        calls: [
          {
            name: "ask_user",
            args: {
              question: "Which restaurant do you prefer for Friday at 19:30?",
              options: ["Trattoria Verde", "Kumo Ramen", "The Old Harbour"],
            },
          },
        ],
      },
      (results) => ({
        text: "Thank you. I am booking it.",
        calls: [
          {
            name: "book_table",
            args: { restaurant: results("ask_user")?.text.slice(0, 80) ?? "Trattoria Verde", time: "19:30", people: 9 },
          },
        ],
      }),
      (results) => ({
        text:
          results("book_table")?.ok === true
            ? "The table is booked for nine people on Friday at 19:30. The confirmation is in your mailbox."
            : "The table could not be booked. Please choose another restaurant.",
      }),
    ],
  },
  {
    name: crashName,
    title: "Crash and recovery",
    description:
      "A worker process runs the turn and is killed with SIGKILL in the middle of a reply. This server takes the turn over; finished tools are not run again.",
    prompt: "Write the release notes for version 2.4.",
    replies: [
      {
        text: "I will read the commits and the closed issues of this version.",
        calls: [
          { name: "read_commits", args: { from: "v2.3.0", to: "v2.4.0" } },
          { name: "read_issues", args: { milestone: "2.4", state: "closed" } },
        ],
      },
      {
        text:
          "## Version 2.4\n\nThis version makes long conversations faster and failures easier to understand.\n\n### Added\n\n" +
          "- Sessions can be searched by the words of their messages.\n- Every list has a filter for the sessions that wait for a person.\n" +
          "- Exports contain the attachments of messages.\n\n### Changed\n\n- The list of sessions loads in pages, so that ten thousand sessions open as fast as ten.\n" +
          "- Errors of a provider show the number of the attempt and the time of the next one.\n\n### Fixed\n\n" +
          "- A message that was sent while the connection was lost is no longer shown twice.\n- Times are shown in the time zone of the reader.\n- Large tables scroll inside of their message.\n\n" +
          "Thank you to the 14 people who reported and fixed these problems.",
      },
    ],
  },
  {
    name: "child-agents",
    title: "Child agents",
    description: "Two agents research at the same time, each in a session of its own, and the first agent compares.",
    prompt: "Should our event log be stored in Postgres or in SQLite? Ask the researchers.",
    replies: [
      {
        text: "I will give each database to one researcher. Both work at the same time.",
        calls: [
          { name: "research", args: { task: "Postgres for an event log" } },
          { name: "research", args: { task: "SQLite for an event log" } },
        ],
      },
      {
        text:
          "Both researchers have answered.\n\n- **Postgres** if several machines write to the log, or if it has to survive the loss of a machine.\n" +
          "- **SQLite** if one machine writes: there is no server to run, and a backup is a copy of a file.\n\nYour log is written by one service on one machine, so start with SQLite. The rows are the same in both, and can be copied later.",
      },
    ],
  },
  {
    name: "long-answer",
    title: "Long answer",
    description: "Reasoning, headings, a list, a table and code, word by word.",
    prompt: "Explain how a turn survives a crash, with an example.",
    replies: [
      {
        reasoning:
          "The reader probably knows what a process and a database are, but not what a journal is. I will begin with the idea, then describe the steps of one turn, show what each crash point " +
          "leaves behind in a table, and end with a small program. I should say clearly which work may happen twice, because that is what people have to design for.",
        text:
          "## The idea\n\nA turn is a list of **effects**: calls of a model and runs of tools. Before the turn depends on the result of an effect, that result is written to a *journal* in the database. " +
          "A process that continues the turn reads the journal, and only performs what is not in it.\n\n## The steps of a turn\n\n" +
          "1. The message of the user is stored, together with the turn. From here on the turn cannot be lost.\n2. A process claims the turn with a *lease*, which it renews while it works.\n" +
          "3. It calls the model and stores the reply.\n4. It runs the tools that the reply asks for, in parallel, and stores each result.\n5. It repeats steps 3 and 4 until the model answers without tools.\n\n" +
          "## What a crash leaves behind\n\n| the process ends | what is stored | what happens next |\n| --- | --- | --- |\n" +
          "| before the reply is complete | the message | the model is called again |\n| after the reply, before a tool has ended | the reply | the tool is run again if that is safe, otherwise a person decides |\n" +
          '| after the result of the tool | reply and result | the turn continues with the next call |\n\n> A payment is an effect that must not happen twice. Mark such a tool with `replay: "never"`.\n\n' +
          '## An example\n\n```ts\nimport { engine, openai, tool } from "everturn";\nimport { sqliteStorage } from "everturn/sqlite";\nimport { runtime } from "everturn/runtime";\n\n' +
          'const refund = tool({\n  name: "refund",\n  description: "Pays money back.",\n  schema: { type: "object", properties: { amount: { type: "number" } } },\n  needsApproval: true,\n  replay: "never",\n' +
          '  handler: ({ amount }) => pay(amount),\n});\n\nconst sessions = runtime({\n  host: sqliteStorage({ path: "sessions.db" }),\n  engines: { default: engine({ adapter: openai(), tools: [refund] }) },\n});\n```\n\n' +
          "The scenario **Crash and recovery** shows this with a real process that is killed.",
      },
    ],
  },
  {
    name: "retries",
    title: "Retries and a failing tool",
    description: "The provider fails twice and is retried; a tool fails, and the model tries another source.",
    prompt: "Summarise yesterday's support tickets.",
    replies: [
      {
        errors: [
          { reason: "rate_limited", status: 429, message: "too many requests, try again in 1 s", retryAfterMs: 1000 },
          { reason: "provider_unavailable", status: 503, message: "the model is overloaded" },
        ],
        text: "I will read the tickets.",
        calls: [{ name: "read_tickets", args: { day: "yesterday", source: "primary" } }],
      },
      {
        text: "The primary system does not answer. I am reading from the replica.",
        calls: [{ name: "read_tickets", args: { day: "yesterday", source: "replica" } }],
      },
      {
        text:
          "Yesterday had **23 tickets**, 19 of which are closed.\n\n- 11 about late parcels, most of them from the strike in the north\n- 7 about invoices without a tax number\n- 5 other questions\n\n" +
          "The invoices need a decision: the form does not ask for the tax number.",
      },
    ],
  },
];

/** The scripts of the researchers, which the agent of `child-agents` starts. Their prompts are the tasks. */
export const researchScripts: readonly Script[] = [
  {
    prompt: "Postgres for an event log",
    replies: [
      {
        text: "Looking for sources.",
        calls: [{ name: "search_documents", args: { query: "postgres append only log", limit: 5 } }],
      },
      {
        text: "Postgres accepts writes from many machines, and a standby takes over if the server is lost. It needs a server, backups and updates.",
      },
    ],
  },
  {
    prompt: "SQLite for an event log",
    replies: [
      {
        text: "Looking for sources.",
        calls: [{ name: "search_documents", args: { query: "sqlite write-ahead log", limit: 5 } }],
      },
      {
        text: "SQLite is a file: no server, and thousands of small writes a second from one machine. Other machines cannot write to it.",
      },
    ],
  },
];
