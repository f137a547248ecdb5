// Loaded before a program of a guide (`node --import`): requests for the hosts of model providers go to the loopback
// provider, whose address is in EVERTURN_GUIDE_PROVIDER. The program itself is the one in the guide, without any
// change.

const hosts = ["api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "localhost:11434"];
const provider = process.env["EVERTURN_GUIDE_PROVIDER"] ?? "";
const send = globalThis.fetch;

globalThis.fetch = (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  return hosts.includes(url.host) ? send(`${provider}${url.pathname}${url.search}`, init) : send(input, init);
};
