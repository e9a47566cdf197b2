"""What goes into a render shows in what comes out, or there is an error that names it.

Chat templates leave things out without a word: DeepSeek-V3's shows no tool declarations, and others no second system message,
so that ``[user "hi", assistant "a", system "In French.", user "hm?"]`` renders as if the third message weren't there.
"""

from .dropped import NothingDropped as NothingDropped
