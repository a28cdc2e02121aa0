"""The page while the connection to the server is lost."""

from playwright.sync_api import expect

from tests.conftest import ready


def test_a_panel_whose_script_did_not_come_works_once_the_connection_is_back(someone, url):
    page = someone(url)
    ready(page)
    page.context.set_offline(True)
    with page.expect_event("requestfailed", lambda request: "race_lab/panel.js" in request.url):
        page.get_by_role("tab", name="Understand").click()
        page.get_by_role("tab", name="Race lab").click()
    verdict = page.locator("#tab-race .verdict").first
    expect(verdict).to_be_empty()
    page.context.set_offline(False)
    expect(verdict).to_contain_text("arrives first")
