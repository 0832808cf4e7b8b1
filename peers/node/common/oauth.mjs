// What signs in for a client of either TypeScript SDK, with nobody at the browser.

/** An OAuth client whose person says yes at once. */
export class Person {
  constructor(name, anyResource) {
    this.clientMetadata = {
      client_name: name,
      redirect_uris: [this.redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
    if (anyResource) this.validateResourceURL = (server, resource) => new URL(resource ?? server);
  }
  get redirectUrl() {
    return "http://127.0.0.1:1/callback";
  }
  clientInformation() {
    return this.information;
  }
  saveClientInformation(information) {
    this.information = information;
  }
  tokens() {
    return this.saved;
  }
  saveTokens(tokens) {
    this.saved = tokens;
  }
  discoveryState() {
    return this.discovered;
  }
  saveDiscoveryState(state) {
    this.discovered = state;
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  async redirectToAuthorization(url) {
    const { headers } = await fetch(url, { redirect: "manual" });
    this.callback = new URL(headers.get("location")).searchParams;
  }
}

/** Says what the server said before and after the client's token became invalid: `connect(person)` opens a client. */
export async function signIn(name, connect, finish) {
  const person = new Person(name, process.argv.includes("--any-resource"));
  const said = {};
  try {
    let { client, transport } = connect(person);
    try {
      await client.connect(transport);
    } catch (error) {
      if (!person.callback) throw error;
      await finish(transport, person.callback);
      ({ client, transport } = connect(person));
      await client.connect(transport);
    }
    said.revision = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
    said.results = [];
    for (const tool of ["who", "expire", "who"]) {
      const { content } = await client.callTool({ name: tool, arguments: {} });
      said.results.push(content[0].text);
    }
    await client.close();
  } catch (error) {
    said.error = error.message;
  }
  console.log(JSON.stringify(said));
  process.exit();
}
