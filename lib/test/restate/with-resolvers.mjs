// Defines Promise.withResolvers on Node 20, which the SDK of Restate needs. For test processes only (`--import`): the
// library reports an error instead.
Promise.withResolvers ??= function withResolvers() {
  const settle = {};
  const promise = new this((resolve, reject) => Object.assign(settle, { resolve, reject }));
  return { promise, ...settle };
};
