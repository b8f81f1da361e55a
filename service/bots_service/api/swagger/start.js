// Starts Swagger UI, in the scheme that the reader's system has.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);

// Screen readers get no link inside of a button, and no level of headings is left out.
const readable = ({ React }) => ({
  wrapComponents: {
    DeepLink:
      () =>
      ({ text }) =>
        React.createElement("span", null, text),
    operations: (Operations) => (props) =>
      React.createElement(
        React.Fragment,
        null,
        React.createElement("h2", { className: "routes" }, "Routes"),
        React.createElement(Operations, props),
      ),
  },
});

window.SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  defaultModelsExpandDepth: -1,
  displayRequestDuration: true,
  syntaxHighlight: { theme: "obsidian" }, // numbers of the default theme have 3.5 to 1
  plugins: [readable],
});
