from __future__ import annotations
from tests.browser.chromium import open_page, sign_in
from tests.factories import PASSWORD
from retrieval.connectors.folder import FolderConfig
from retrieval.connections import create_connection
from retrieval.models import SyncRun, SyncItem, Connection
from tests import factories
from django.conf import settings
def test_shot(desk, chromium, errors, tmp_path):
    settings.KAIZEN_FOLDER_ROOTS=(str(tmp_path),)
    c = create_connection(factories.authority_of(desk.admin), source=desk.source, connector="folder", config=FolderConfig(folder=str(tmp_path)))
    for n in range(3):
        SyncRun.objects.create(organization=desk.organization, connection=c, attempt=n, state=["failed","succeeded","held"][n], seen=12, added=3, message=["","1 item couldn't be taken over; what can be tried again is.","The other side names 3 of 40 documents. The other 37 were not deleted: look whether the other side is whole. If it is, choose “Allow the deletions”."][n])
    SyncItem.objects.create(organization=desk.organization, connection=c, external_id="handbook/long/name of a file.pdf", first_pass=1,last_pass=1,error="The file is larger than 50 MB.",failures=2)
    Connection.objects.filter(pk=c.pk).update(held_deletions=37,last_error="The other side names 3 of 40 documents.")
    page = open_page(chromium, errors=errors, viewport={"width":1280,"height":900})
    sign_in(page, desk.stack.address, desk.admin.user.email, PASSWORD)
    b=f"{desk.stack.address}/o/{desk.organization.slug}/admin/retrieval/connection/"
    for name,u in (("list",b),("choose",b+"add/"),("add",b+"add/?connector=folder"),("change",f"{b}{c.pk}/change/")):
        page.goto(u); page.wait_for_timeout(400); page.screenshot(path=f"/tmp/kaizen/conn_{name}.png", full_page=True)
    page.goto(f"{b}{c.pk}/change/"); page.click("button[value=pause]"); page.wait_for_timeout(500); page.screenshot(path="/tmp/kaizen/conn_paused.png")
    page.context.close()
