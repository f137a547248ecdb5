// The prelude: JavaScript that runs inside the interpreter before the code of a cell. It defines the globals of the
// cell (tools, print, finish, giveUp) on top of four functions of the host.
//
// It copies the built-ins it needs, because the cell may overwrite globals. After a host function returns `true`, it
// loops until it is interrupted, so that the cell cannot continue.

export const preludeSource = `(call, print, finish, giveUp, names) => {
  "use strict";
  const { parse, stringify } = JSON;
  const { isFinite } = Number;
  const { isArray } = Array;
  const { defineProperty, freeze, hasOwn } = Object;
  const TextError = Error;
  const TypeTextError = TypeError;
  const Later = Promise;
  const AsyncFunction = (async () => {}).constructor;

  const describe = (thrown) => {
    if (typeof thrown === "string") return thrown;
    if (thrown instanceof TextError) {
      const name = thrown.name + "";
      const message = thrown.message + "";
      return name === "" || message === "" ? name + message : name + ": " + message;
    }
    return thrown === undefined ? "undefined" : stringify(thrown) ?? "a " + typeof thrown;
  };

  const shown = (value) => {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeTextError("print: a " + typeof value + " is not JSON");
    return describe(value);
  };

  const refuseOther = (key, value) => {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeTextError("a " + typeof value + " is not JSON");
    if (typeof value === "number" && !isFinite(value)) throw new TypeTextError(value + " is not JSON");
    return value;
  };

  const data = (value) => {
    const text = stringify(value, refuseOther);
    if (text === undefined) throw new TypeTextError("the value is not JSON");
    return text;
  };

  const define = (target, name, value) => {
    defineProperty(target, name, { value, writable: true, enumerable: true, configurable: true });
  };

  const say = (...values) => {
    let text = "";
    for (let index = 0; index < values.length; index += 1) text += (index === 0 ? "" : " ") + shown(values[index]);
    const refused = print(stringify(text));
    while (refused === true);
    if (refused !== undefined) throw new TypeTextError("print: " + refused);
  };

  const ending = (name, end) => {
    const run = (value) => {
      const refused = end(data(value === undefined ? null : value));
      while (refused === true);
      throw new TypeTextError(name + ": " + refused);
    };
    define(run, "name", name);
    return run;
  };

  const tool = (name, index) => {
    const run = async (given = {}) => {
      if (typeof given !== "object" || given === null || isArray(given)) {
        throw new TypeTextError(name + ": the arguments must be one object");
      }
      const text = data(given);
      let settle;
      const answer = new Later((resolve, reject) => { settle = { resolve, reject }; });
      const refused = call(index, text, settle.resolve, settle.reject);
      while (refused === true);
      if (refused !== undefined) throw new TypeTextError(name + ": " + refused);
      return answer;
    };
    define(run, "name", name);
    return run;
  };

  define(Math, "random", () => { throw new TextError("Math.random is not available in a cell"); });
  define(globalThis, "print", say);
  define(globalThis, "console", { log: say });
  define(globalThis, "finish", ending("finish", finish));
  define(globalThis, "giveUp", ending("giveUp", giveUp));
  const tools = { __proto__: null };
  define(globalThis, "tools", tools);
  parse(names).forEach(({ name, isIdentifier }, index) => {
    define(tools, name, tool(name, index));
    if (isIdentifier && !hasOwn(globalThis, name)) define(globalThis, name, tools[name]);
  });
  freeze(tools);

  return {
    start: (code) => new AsyncFunction(parse(code))(),
    settle: (settle, ok, text) => settle(ok ? parse(text) : new TextError(parse(text))),
    describe: (thrown) => stringify(describe(thrown)),
  };
}`;
