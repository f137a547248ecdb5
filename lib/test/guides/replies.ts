// What the loopback provider replies to each program of the guides: by the name of the guide, one list for each program
// in it.

import type { Reply } from "./provider.ts";

export const replies: { readonly [guide: string]: readonly (readonly Reply[])[] } = {
  README: [
    [{ calls: [["weather", { city: "Rome" }]] }, { text: "No. The sky over Rome is clear, at 24 degrees." }],
    [{ calls: [["refund", { euros: 189 }]] }, { text: "I have refunded 189 EUR to your card." }],
    // It has a scripted model.
    [],
  ],
  "getting-started": [
    [
      { text: "Franz Kafka wrote The Trial." },
      { text: "It was published in 1925, a year after his death.", usage: { input: 48, output: 10 } },
    ],
    [{ status: 503 }, { status: 429 }, { text: "Hello!" }],
  ],
  operators: [[{ text: "The Tiber." }]],
  embeddings: [
    [
      {
        embeddings: [
          [0.9, 0.1, 0.1],
          [0.1, 0.9, 0.1],
          [0.2, 0.1, 0.9],
        ],
        usage: { input: 18, output: 0 },
      },
      { embeddings: [[0.8, 0.2, 0.1]] },
    ],
  ],
  tools: [
    [
      {
        calls: [
          ["check_stock", { product: "grinder" }],
          ["check_stock", { product: "kettle" }],
        ],
      },
      { text: "We have three grinders; kettles are sold out." },
    ],
    [
      {
        items: [
          {
            type: "shell_call",
            id: "sh_1",
            call_id: "call_1",
            status: "completed",
            action: { commands: ["ls", "rm notes.txt"], timeout_ms: 5000, max_output_length: null },
          },
        ],
      },
      { when: "shell_call_output", text: "I found notes.txt. It was not removed." },
    ],
  ],
  streaming: [
    [
      { calls: [["clock", { city: "Rome" }]], usage: { input: 36, output: 9 } },
      { text: "It is five past two in Rome.", usage: { input: 44, output: 7 } },
    ],
  ],
  "structured-output": [
    [
      {
        text: '{"title":"Blank checkout page after the update","severity":"high","components":["checkout","cart"]}',
      },
    ],
  ],
  "human-approval": [
    [{ calls: [["refund", { order: "1042", euros: 189 }]] }, { text: "I have refunded 189 EUR to your card." }],
    // It has a scripted model.
    [],
  ],
  "customers-and-approvers": [
    [{ calls: [["refund", { order: "17", euros: 50 }]] }, { text: "Your 50 euros are on their way." }],
  ],
  "long-conversations": [
    [
      { calls: [["read_log", { day: 1 }]], usage: { input: 3_200, output: 12 } },
      { text: "Day 1: order 17 failed twice.", usage: { input: 3_900, output: 9 } },
      { calls: [["read_log", { day: 2 }]], usage: { input: 3_950, output: 12 } },
      { text: "Goal: find out what happened to order 17. It failed twice on day 1." },
      { text: "Day 2: order 17 was refunded.", usage: { input: 2_900, output: 9 } },
      { text: "Order 17 failed twice and was then refunded." },
    ],
  ],
  sessions: [[{ text: "Buongiorno." }, { text: "Buonasera." }]],
  durable: [
    [
      { calls: [["track_parcel", { order: "1042" }]] },
      { text: "Your parcel is in Bologna." },
      { text: "It should arrive on Tuesday." },
    ],
    [],
  ],
  deploying: [[{ text: "The Tiber." }]],
  middleware: [[{ text: "Hello [EMAIL_1]!", usage: { input: 20, output: 9 } }], []],
  limits: [[{ text: "The Tiber." }, { text: "The Loire." }], []],
  postgres: [[{ text: "The Po." }]],
  http: [[{ text: "No, it is sunny." }]],
  client: [[{ text: "Rome has more than nine hundred churches." }]],
  providers: [
    [{ text: "Paris" }, { text: "Paris" }, { text: "Paris" }, { text: "Paris" }],
    [{ status: 503 }, { text: "Paris" }],
  ],
  "usage-and-budgets": [
    [
      { calls: [["search", { query: "letter 1924" }]], usage: { input: 2000, output: 400 } },
      { calls: [["search", { query: "letters" }]], usage: { input: 4000, output: 900, cached: 2000 } },
    ],
  ],
  mcp: [[{ calls: [["get-sum", { a: 19, b: 23 }]] }, { text: "It is 42." }]],
  // The guide has one question to three programs.
  "ai-sdk": [1, 2, 3].map(() => [
    { calls: [["weather", { city: "Rome" }]] },
    { text: "It is clear in Rome, at 21 degrees." },
  ]),
  "multi-agent": [
    [
      { calls: [["research", { task: "leaking grinder" }]], usage: { input: 20, output: 5 } },
      { calls: [["search_cases", { query: "grinder leaks" }]], usage: { input: 15, output: 4 } },
      { text: "Case 77: replace the gasket.", usage: { input: 24, output: 5 } },
      { text: "Replace the gasket; that fixed it for another customer.", usage: { input: 32, output: 9 } },
    ],
  ],
  "code-protocol": [
    [
      {
        text: [
          "```javascript",
          "const months = await Promise.all([1, 2, 3].map((month) => orders({ month })));",
          "finish({ total: months.flat().reduce((sum, { euros }) => sum + euros, 0) });",
          "```",
        ].join("\n"),
      },
    ],
  ],
  "write-a-protocol": [
    [
      { text: "The best bread in town is baked fresh daily." },
      { when: "Drafts so far: 1.", text: "Fresh bread every morning." },
      { text: "Our bread is made with love and care." },
      { calls: [["print", { text: "Warm bread, warm hearts." }]] },
      { when: "printed: Warm bread", text: "Warm bread, warm hearts." },
      { text: "We only need flour, water, salt and time." },
      { calls: [["count_letters", { text: "Flour, water, salt, time." }]] },
      { when: "25", text: "Flour, water, salt, time." },
    ],
  ],
  testing: [[{ calls: [["convert", { euros: 20 }]] }, { text: "20 euros are 25 dollars." }], []],
  security: [[{ calls: [["invoices", {}]] }, { text: "You have one invoice: 1-1." }], []],
  data: [[{ text: "Good morning." }, { text: "Good evening." }]],
  "lib/README": [
    [
      { calls: [["weather", { city: "Rome" }]], usage: { input: 40, output: 8 } },
      { text: "It is clear in Rome, at 21 degrees.", usage: { input: 51, output: 9 } },
    ],
  ],
  cli: [[{ text: "The Tiber." }, { text: "The Seine." }, { when: "Tiber, Arno, Po", text: "The Arno." }]],
};
