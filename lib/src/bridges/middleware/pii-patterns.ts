// Finds personal data in text: regular expressions, each with a check that rejects look-alikes (check digits, ranges).
//
// All quantifiers are bounded, so the time for a text is linear in its length.

/** The kinds of personal data that `redactPii` finds by itself. */
export type PiiKind = keyof typeof detectors;

/** A kind of data: its pattern, and a check of each match. */
export type Detector = { readonly pattern: RegExp; readonly accepts?: (match: string) => boolean };

/** In the order in which they are applied: a later kind does not match inside a match of an earlier one. */
export const detectors = {
  email: { pattern: /[\p{L}\p{N}._%+-]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/gu },
  iban: { pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g, accepts: isIban },
  credit_card: { pattern: /(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-])/g, accepts: hasLuhnDigit },
  us_ssn: { pattern: /(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])/g },
  ip_address: {
    pattern: /(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:]))/g,
    accepts: isIpAddress,
  },
  // International numbers with a plus sign, and North American ones.
  phone: {
    pattern: /(?<![\w+.-])(?:\+\d{1,3}(?:[ .()/-]{0,2}\d){6,14}|(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4})(?![\w-])/g,
  },
} as const satisfies { readonly [kind: string]: Detector };

/** The check digits of ISO 13616: the number modulo 97 is 1. */
function isIban(match: string): boolean {
  const text = match.replaceAll(" ", "");
  let rest = 0;
  for (const character of text.slice(4) + text.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}

/** The check digit of ISO/IEC 7812 (Luhn). A number of equal digits is no card. */
function hasLuhnDigit(match: string): boolean {
  const digits = Array.from(match.replaceAll(/\D/g, ""), Number);
  const sum = digits.toReversed().reduce((total, digit, index) => {
    const value = index % 2 === 0 ? digit : digit * 2;
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0 && new Set(digits).size > 1;
}

function isIpAddress(match: string): boolean {
  if (!match.includes(":")) return match.split(".").every((part) => Number(part) <= 255);
  const groups = match.split(":");
  const isShortened = match.includes("::") && match.indexOf("::") === match.lastIndexOf("::") && !match.includes(":::");
  const isComplete = groups.length === 8 && groups.every((group) => group !== "");
  // A digit is required: `a::b` is more often code than an address.
  return (isComplete || (isShortened && groups.length <= 8)) && /\d/.test(match);
}
