# SPDX-License-Identifier: Apache-2.0
"""What people read first: README.md and the pages in docs/ that it leads to, in its order."""
import pathlib
import re


class Page:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text()

    def blocks(self, language):
        """What stands between fences of this language."""
        return re.findall(rf"^```{language}\n(.*?)^```", self.text, re.M | re.S)

    def section(self, title):
        return self.text[self.text.index(f"\n## {title}"):].split("\n## ")[1]

    def links(self):
        """Where its links lead, without what stands behind #, and that."""
        return re.findall(r"\]\(([^)#]*)#?([^)]*)\)", self.text)

    def anchors(self):
        """What may stand behind # in a link to it."""
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
                for title in re.findall(r"^#+ (.*)$", self.text, re.M)}


class Pages:
    def __init__(self, top):
        self.top = pathlib.Path(top)
        self.readme = Page(self.top / "README.md")
        names = [target for target, _ in self.readme.links() if target.startswith("docs/")]
        self.by_name = {pathlib.Path(name).stem: Page(self.top / name) for name in dict.fromkeys(names)}
        self.all = [self.readme, *self.by_name.values()]
        self.text = "\n".join(page.text for page in self.all)

    def __getitem__(self, name):
        """The page docs/NAME.md."""
        return self.by_name[name]

    def blocks(self, language):
        return [block for page in self.all for block in page.blocks(language)]
