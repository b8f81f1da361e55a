"""The page's modules as bundles: each once, after what it needs, and nothing that a bundle can't hold."""

import pytest

from bots_service.api.page.bundle import bundle, modules_of

MODULES = {
    "main.js": 'import { view } from "./view.js";\nimport { say as tell } from "./dom.js";\ntell(view());\n',
    "view.js": 'import {\n  say,\n  own,\n} from "./dom.js";\n\nexport function view() {\n  return own;\n}\n',
    "dom.js": "export const say = console.log;\nconst own = 1;\nexport { own };\n",
    "part.js": (
        "export const part = 1;\nexport class other {}\nexport async function wait() {}\nexport function* rows() {}\n"
    ),
}


def test_a_module_comes_after_those_that_it_needs_and_once():
    assert modules_of("main.js", MODULES.__getitem__) == ["dom.js", "view.js", "main.js"]


def test_a_module_becomes_a_function_that_returns_what_it_exports():
    assert bundle("main.js", MODULES.__getitem__) == (
        "const dom_js = (() => {\nconst say = console.log;\nconst own = 1;\nreturn { say, own };\n})();\n"
        "const view_js = (() => {\nconst {\n  say,\n  own,\n} = dom_js;\n\n"
        "function view() {\n  return own;\n}\nreturn { view };\n})();\n"
        "const main_js = (() => {\nconst { view } = view_js;\nconst { say: tell } = dom_js;\ntell(view());\n"
        "return {  };\n})();\n"
        "export { dom_js, view_js, main_js };\nexport const {  } = main_js;\n"
    )


def test_classes_and_generators_are_exported_too():
    assert bundle("part.js", MODULES.__getitem__) == (
        "const part_js = (() => {\nconst part = 1;\nclass other {}\n"
        "async function wait() {}\nfunction* rows() {}\nreturn { part, other, wait, rows };\n})();\n"
        "export { part_js };\nexport const { part, other, wait, rows } = part_js;\n"
    )


def test_modules_that_import_each_other_are_refused():
    circle = {"main.js": 'import { a } from "./a.js";\n', "a.js": 'import { b } from "./main.js";\n'}
    with pytest.raises(ValueError, match=r"main\.js > a\.js > main\.js"):
        bundle("main.js", circle.__getitem__)


@pytest.mark.parametrize("line", ['import * as all from "./a.js";', "export default 1;", 'export { a } from "./a.js";'])
def test_what_a_bundle_cannot_hold_is_refused(line: str):
    with pytest.raises(ValueError, match="not provided for"):
        bundle("main.js", {"main.js": f"{line}\n"}.__getitem__)
