// Prints the demo line by line, for a terminal or a log: time, name, and text wrapped in its column. Output is
// append-only, so a log has the same lines as a terminal. Control characters in text are replaced.

import type { Margin } from "../terminal/flow.ts";
import type { Style } from "../terminal/style.ts";

import { Flow } from "../terminal/flow.ts";
import { safeLine, SafeText } from "../terminal/safe-text.ts";
import { colours } from "../terminal/style.ts";

export type ScreenOptions = {
  readonly out: NodeJS.WritableStream;
  /** Returns the current width of the terminal. */
  readonly columns: () => number;
  readonly colour: boolean;
  /** Returns the milliseconds since the start of the demo. */
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
/** Terminals narrower than this show no time. */
const narrow = 60;
/** The widest line, for readability. */
const widest = 100;

export class Screen {
  readonly #options: ScreenOptions;
  /** The paragraph that `say` appends to. */
  #open: Paragraph | null = null;

  constructor(options: ScreenOptions) {
    this.#options = options;
  }

  /** Prints a paragraph, wrapped. */
  line(name: string, text: string, tone: Tone = "plain"): void {
    this.close();
    this.#write(this.#paragraph(this.#margin(name, tone), tone).add(text));
    this.close();
  }

  /** Appends streamed text to the open paragraph, or opens one. */
  say(name: string, delta: string): void {
    this.#write((this.#open ?? this.#paragraph(this.#margin(name, "plain"), "plain")).add(delta));
  }

  /** Ends the open paragraph. */
  close(): void {
    const open = this.#open;
    this.#open = null;
    if (open !== null) this.#write(open.end());
  }

  gap(): void {
    this.close();
    this.#write("\n");
  }

  /** Prints a title and an empty line. */
  title(text: string): void {
    this.close();
    this.#write(this.#paragraph({ first: [], rest: [] }, "bold").add(text));
    this.gap();
  }

  /** Prints a line without wrapping, for commands that are copied. */
  verbatim(text: string): void {
    this.close();
    this.#write(`  ${colours(this.#options.colour).paint(safeLine(text), tones.calm)}\n`);
  }

  /** Prints a name and a value; the value is wrapped in its column. */
  fact(name: string, text: string, tone: Tone = "plain"): void {
    this.close();
    const first = [{ text: `  ${name.padEnd(factWidth)}`, style: tones.dim }];
    this.#write(this.#paragraph({ first, rest: [blank(2 + factWidth)] }, tone).add(text));
    this.close();
  }

  /** Returns the prompt for a line that the user types. */
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

  /** The margin of a paragraph: the time, if the terminal is wide enough, and a name. */
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

/** A paragraph of streamed text, wrapped incrementally. */
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
    return this.#layOut(this.#safe.push(text));
  }

  end(): string {
    return this.#layOut(this.#safe.end()) + this.#flow.end();
  }

  #layOut(text: string): string {
    const { rest } = this.#margin;
    for (const point of text) {
      if (point === "\n") this.#flow.line({ first: rest, rest });
      else this.#flow.prose(point, this.#style);
    }
    return this.#flow.take();
  }
}
