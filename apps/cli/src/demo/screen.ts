// Writes the demo down, line by line, for a terminal or a log: the time, who speaks, and what, wrapped with the text kept in its column. Nothing is
// ever taken back, so what a log has is what a terminal showed. Colours only where they are wanted.

import type { Margin } from "../terminal/flow.ts";
import type { Style } from "../terminal/style.ts";

import { Flow } from "../terminal/flow.ts";
import { safeLine, SafeText } from "../terminal/safe-text.ts";
import { colours } from "../terminal/style.ts";

/** Where to write to, and how. */
export type ScreenOptions = {
  readonly out: NodeJS.WritableStream;
  /** How many columns there are, when asked. */
  readonly columns: () => number;
  readonly colour: boolean;
  /** Milliseconds since the demo began. */
  readonly elapsed: () => number;
};

const tones = {
  plain: {},
  dim: { dim: true },
  bold: { bold: true },
  good: { hue: "green" },
  bad: { bold: true, hue: "red" },
  calm: { hue: "cyan" },
  warm: { hue: "yellow" },
} as const satisfies { readonly [name: string]: Style };
export type Tone = keyof typeof tones;

const timeWidth = 7;
const nameWidth = 10;
const factWidth = 13;
/** Below this there is no room for the time. */
const narrow = 60;
/** Longer lines are hard to read, however wide the window is. */
const widest = 100;

export class Screen {
  readonly #options: ScreenOptions;
  #open: Paragraph | null = null;

  constructor(options: ScreenOptions) {
    this.#options = options;
  }

  /** A line of its own, or several where it is long. */
  line(name: string, text: string, tone: Tone = "plain"): void {
    this.close();
    this.#write(this.#paragraph(this.#margin(name, tone), tone).add(text));
    this.close();
  }

  /** More of what somebody is saying. */
  say(name: string, delta: string): void {
    this.#write((this.#open ?? this.#paragraph(this.#margin(name, "plain"), "plain")).add(delta));
  }

  /** Whoever was speaking is done, or was cut off. */
  close(): void {
    const open = this.#open;
    this.#open = null;
    if (open !== null) this.#write(open.end());
  }

  gap(): void {
    this.close();
    this.#write("\n");
  }

  /** A title. */
  title(text: string): void {
    this.close();
    this.#write(this.#paragraph({ first: [], rest: [] }, "bold").add(text));
    this.gap();
  }

  /** Something to copy: never wrapped. */
  verbatim(text: string): void {
    this.close();
    this.#write(`  ${colours(this.#options.colour).paint(safeLine(text), tones.calm)}\n`);
  }

  /** A fact and its value, the value wrapped in its column. */
  fact(name: string, text: string, tone: Tone = "plain"): void {
    this.close();
    const first = [{ text: `  ${name.padEnd(factWidth)}`, style: tones.dim }];
    this.#write(this.#paragraph({ first, rest: [blank(2 + factWidth)] }, tone).add(text));
    this.close();
  }

  /** What stands before what somebody is about to type. */
  prompt(name: string): string {
    this.close();
    const { paint } = colours(this.#options.colour);
    return this.#margin(name, "plain")
      .first.map(({ text, style }) => paint(text, style))
      .join("");
  }

  #paragraph(margin: Margin, tone: Tone): Paragraph {
    const flow = new Flow({ width: this.#width(), colours: this.#options.colour });
    this.#open = new Paragraph(flow, margin, tones[tone]);
    return this.#open;
  }

  /** The time, where there is room for it, and a name. */
  #margin(name: string, tone: Tone): Margin {
    const time = `${(this.#options.elapsed() / 1000).toFixed(1)}s`.padStart(timeWidth - 2).padEnd(timeWidth);
    const hasTime = this.#width() >= narrow;
    const named = { text: name.padEnd(nameWidth), style: tones[tone === "plain" ? "bold" : tone] };
    const first = hasTime ? [{ text: time, style: tones.dim }, named] : [named];
    return { first, rest: [blank(nameWidth + (hasTime ? timeWidth : 0))] };
  }

  #width(): number {
    return Math.min(widest, Math.max(24, this.#options.columns()));
  }

  #write(text: string): void {
    if (text !== "") this.#options.out.write(text);
  }
}

function blank(width: number): { readonly text: string; readonly style: Style } {
  return { text: " ".repeat(width), style: tones.plain };
}

/** Text that comes in pieces, laid out as it comes. */
class Paragraph {
  readonly #flow: Flow;
  readonly #margin: Margin;
  readonly #style: Style;
  readonly #safe = new SafeText();

  constructor(flow: Flow, margin: Margin, style: Style) {
    this.#flow = flow;
    this.#margin = margin;
    this.#style = style;
    flow.line(margin);
  }

  add(text: string): string {
    return this.#lay(this.#safe.push(text));
  }

  end(): string {
    return this.#lay(this.#safe.end()) + this.#flow.end();
  }

  #lay(text: string): string {
    const { rest } = this.#margin;
    for (const point of text) {
      if (point === "\n") this.#flow.line({ first: rest, rest });
      else this.#flow.prose(point, this.#style);
    }
    return this.#flow.take();
  }
}
