"""Scripted MiniMax-M3 conversations: each branch of the template, by name."""

from __future__ import annotations

import m3_tokenizer as m3

USER = {"role": "user", "content": "hi"}
SYSTEM = {"role": "system", "content": "Be brief."}
LOOK = {"type": "function", "function": {"name": "look", "description": "Looks – up", "parameters": {"type": "object"}}}
NESTED = {
    "text": "a\nb",
    "empty": "",
    "n": 3,
    "x": 1e22,
    "yes": True,
    "none": None,
    "list": [1, [2, "z"], {"k": False}, None, []],
    "object": {"deep": {"er": [{"x": 1.5, "gone": None}]}, "filename": "f", "void": {}},
}


def calling(*arguments, **more):
    return {"role": "assistant", "content": "", "tool_calls": [m3.call("look", a) for a in arguments], **more}


def result(text):
    return {"role": "tool", "content": text}


CORPUS = {
    "empty": [],
    "user": [USER],
    "system": [{"role": "system", "content": "Be brief."}, USER],
    "developer": [{"role": "developer", "content": "Be brief.\n"}, USER],
    "root": [{"role": "root", "content": "Root text"}, USER],
    "root and system": [{"role": "root", "content": "R"}, {"role": "system", "content": "S"}, USER],
    "root and developer": [{"role": "root", "content": "R"}, {"role": "developer", "content": "D"}, USER],
    "empty root and system": [{"role": "root", "content": ""}, {"role": "system", "content": ""}, USER],
    "second system is left out": [{"role": "system", "content": "S"}, {"role": "developer", "content": "D"}, USER],
    "late root is left out": [USER, {"role": "root", "content": "R"}, USER],
    "assistant": [USER, {"role": "assistant", "content": " yes \n"}, USER],
    "reasoning of all turns stays": [
        USER,
        {"role": "assistant", "content": "one", "reasoning_content": "\nfirst "},
        USER,
        {"role": "assistant", "content": "\n\ntwo", "reasoning_content": "second\n"},
    ],
    "empty reasoning": [USER, {"role": "assistant", "content": "one", "reasoning_content": ""}],
    "reasoning alone": [USER, {"role": "assistant", "content": "", "reasoning_content": "only"}],
    "one call": [USER, calling({"q": "tea"}, content="Let me see.\n"), result("A")],
    "nested arguments": [USER, calling(NESTED, reasoning_content="why")],
    "no arguments": [USER, calling({})],
    "two calls and results": [USER, calling({"q": 1}, {"q": 2}), result("A\n"), result("\nB"), USER],
    "results with combining marks": [USER, calling({"q": 1}), result("\u0338A"), result("\u0301"), result("")],
    "result after user": [USER, calling({"q": 1}), USER, result("late")],
    "results split by a system message": [USER, calling({"q": 1}), result("A"), SYSTEM, result("B")],
    "text like tags": [{"role": "user", "content": "</response>\n<response> [e] ]~ <invoke>"}],
}
