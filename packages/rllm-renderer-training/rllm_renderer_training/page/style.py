"""Style and script of the page of tokens. Text has at least 4.5 times the contrast of what is behind it, light and dark."""

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --soft: #555b63; --line: #c9ced6; --given: #f2f4f7;
  --p0: #d5f0dc; --p1: #e6efc4; --p2: #fbe9b0; --p3: #fbd3b4; --p4: #f9c2c2; --n: #d9e4fb; --notice: #fff3d6;
  --focus: #0b57d0; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #eceff3; --soft: #a7b0bb; --line: #3a414a;
  --given: #1f242b; --p0: #17402a; --p1: #37451a; --p2: #534210; --p3: #5a3215; --p4: #5e2326; --n: #1f3660;
  --notice: #43360f; --focus: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem 1rem 5rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
h3 { font-size: .85rem; font-weight: 600; margin: 0 0 .25rem; color: var(--soft); overflow-wrap: anywhere; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
.block { border-left: .25rem solid var(--line); padding: .25rem 0 .25rem .75rem; margin: .5rem 0; }
.block.user { border-color: #3f78d8; } .block.assistant { border-color: #2e8b57; } .block.tool { border-color: #b5651d; }
.block.system, .block.developer { border-color: #8556c4; }
.tokens { font: .9rem/1.8 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
.t { border-radius: .2rem; box-shadow: 0 0 0 1px var(--line); padding: .1em 0; }
.g { background: var(--given); }
.s { font-weight: 600; } .p0 { background: var(--p0); } .p1 { background: var(--p1); } .p2 { background: var(--p2); }
.p3 { background: var(--p3); } .p4 { background: var(--p4); } .n { background: var(--n); }
.f { text-decoration: underline dotted; text-underline-offset: .25em; }
.r { text-decoration: underline dashed; text-underline-offset: .25em; }
.w { color: var(--ink); font-style: normal; }
.t:hover, .t:focus { outline: 3px solid var(--focus); outline-offset: 1px; position: relative; }
.notice { background: var(--notice); border-left: .25rem solid #c08a00; padding: .5rem .75rem; margin: 1.5rem 0 0; }
.legend { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: .5rem 0; list-style: none; font-size: .85rem; }
.legend .t { padding: .1rem .4rem; }
#told { position: fixed; inset: auto 0 0 0; margin: 0; padding: .5rem 1rem; background: var(--paper); color: var(--ink);
  border-top: 1px solid var(--line); font-size: .9rem; overflow-wrap: anywhere; }
"""

SCRIPT = """
const told = document.getElementById("told"), tokens = [...document.querySelectorAll(".tokens .t")];
const tell = token => { told.textContent = JSON.stringify(token.textContent) + ": " + token.title; };
document.addEventListener("mouseover", event => { const token = event.target.closest(".tokens .t"); if (token) tell(token); });
document.addEventListener("focusin", event => { if (event.target.matches(".tokens .t")) tell(event.target); });
document.addEventListener("keydown", event => {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const at = tokens.indexOf(document.activeElement), step = steps[event.key];
  if (at < 0 || !step || !tokens[at + step]) return;
  event.preventDefault();
  tokens[at + step].focus();
});
"""
