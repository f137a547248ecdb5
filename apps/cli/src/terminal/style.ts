// Text styles as values, and their SGR escape sequences. Only this file writes SGR sequences.

type Hue = "red" | "green" | "yellow" | "blue" | "magenta" | "cyan";

export type Style = {
  readonly bold?: true;
  readonly dim?: true;
  readonly italic?: true;
  readonly underline?: true;
  readonly strike?: true;
  readonly inverse?: true;
  readonly hue?: Hue;
};

export const plain: Style = {};

const hues: { readonly [H in Hue]: number } = { red: 31, green: 32, yellow: 33, blue: 34, magenta: 35, cyan: 36 };

/** The escape sequence that starts a style; empty for plain text. */
export function opening(style: Style): string {
  const codes: number[] = [];
  if (style.bold === true) codes.push(1);
  if (style.dim === true) codes.push(2);
  if (style.italic === true) codes.push(3);
  if (style.underline === true) codes.push(4);
  if (style.inverse === true) codes.push(7);
  if (style.strike === true) codes.push(9);
  if (style.hue !== undefined) codes.push(hues[style.hue]);
  return codes.length === 0 ? "" : `\u001B[${codes.join(";")}m`;
}

export const closing = "\u001B[0m";

/** Returns whether two styles have the same effect. */
export function isSameStyle(left: Style, right: Style): boolean {
  return left === right || opening(left) === opening(right);
}

/** Functions that style text; without colours they return the text unchanged. */
export type Colours = {
  readonly enabled: boolean;
  readonly paint: (text: string, style: Style) => string;
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  readonly red: (text: string) => string;
  readonly green: (text: string) => string;
  readonly yellow: (text: string) => string;
  readonly cyan: (text: string) => string;
};

export function colours(enabled: boolean): Colours {
  const paint = (text: string, style: Style): string => {
    const open = enabled && text !== "" ? opening(style) : "";
    return open === "" ? text : `${open}${text}${closing}`;
  };
  return {
    enabled,
    paint,
    bold: (text) => paint(text, { bold: true }),
    dim: (text) => paint(text, { dim: true }),
    red: (text) => paint(text, { hue: "red" }),
    green: (text) => paint(text, { hue: "green" }),
    yellow: (text) => paint(text, { hue: "yellow" }),
    cyan: (text) => paint(text, { hue: "cyan" }),
  };
}

/**
 * Returns whether to use colours: no if `NO_COLOR` is not empty (https://no-color.org); else as `FORCE_COLOR` says
 * (`0`: no); else yes for a terminal that is not `dumb`.
 */
export function wantsColours(env: { readonly [name: string]: string | undefined }, isTerminal: boolean): boolean {
  if ((env["NO_COLOR"] ?? "") !== "") return false;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined && forced !== "") return forced !== "0";
  return isTerminal && env["TERM"] !== "dumb";
}
