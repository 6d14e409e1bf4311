"""A real browser, where there is one."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def browser_or_skip():
    """Chromium without a window, its console recorded; the test is skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no Chromium, or no driver for it")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def resize(browser, width, scheme="light"):
    """A viewport of that many pixels: windows cannot be as narrow as a phone."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
