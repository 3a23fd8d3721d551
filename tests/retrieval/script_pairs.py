"""Texts and questions in many scripts: what a question must find (G20). Sentences are our own."""

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """A text, and words that a person would look for it with."""

    name: str
    text: str
    query: str


PAIRS = [
    # Chinese, without spaces; words inside a run.
    Pair("zh-1", "公司的报销流程需要经理批准。", "报销流程"),
    Pair("zh-2", "我家在上海东边，每天坐地铁上班。", "上海"),
    Pair("zh-3", "年假最多可以保留到第二年三月。", "年假"),
    Pair("zh-4", "請將請假單交給人力資源部門。", "人力資源"),
    Pair("zh-5", "打印机在三楼会议室旁边。", "会议室"),
    Pair("zh-6", "所有员工必须参加安全培训。", "安全培训"),
    Pair("zh-7", "合同编号为ＡＢ－２０２６，请妥善保管。", "AB-2026"),
    Pair("zh-8", "食堂的午餐时间是十一点半。", "午餐"),
    # Japanese: kanji, kana, half width and full width.
    Pair("ja-1", "売上は今月増えました。担当は営業部です。", "今月"),
    Pair("ja-2", "出張の精算は月末までに提出してください。", "精算"),
    Pair("ja-3", "会議室の予約はオンラインで行います。", "予約"),
    Pair("ja-4", "パスワードは三か月ごとに変更します。", "パスワード"),
    Pair("ja-5", "ﾌﾟﾘﾝﾀは二階にあります。", "プリンタ"),
    Pair("ja-6", "育児休業は一年間取得できます。", "育児休業"),
    Pair("ja-7", "社員証をなくした場合は総務に連絡する。", "社員証"),
    Pair("ja-8", "昼休みは十二時からです。", "昼休み"),
    # Korean: particles stick to words.
    Pair("ko-1", "프로젝트 번역을 부탁해", "번역"),
    Pair("ko-2", "휴가는 팀장에게 신청하세요.", "휴가"),
    Pair("ko-3", "회의실에서는 음식을 먹을 수 없습니다.", "회의실"),
    Pair("ko-4", "출장비는 영수증과 함께 청구합니다.", "영수증"),
    Pair("ko-5", "비밀번호를 정기적으로 변경하십시오.", "비밀번호"),
    Pair("ko-6", "신입사원 교육은 월요일에 시작합니다.", "교육"),
    # Thai.
    Pair("th-1", "พนักงานต้องส่งใบลาล่วงหน้าสามวัน", "ใบลา"),
    Pair("th-2", "ห้องประชุมอยู่ชั้นสอง", "ห้องประชุม"),
    Pair("th-3", "ค่าเดินทางจ่ายคืนภายในสิ้นเดือน", "ค่าเดินทาง"),
    Pair("th-4", "เปลี่ยนรหัสผ่านทุกสามเดือน", "รหัสผ่าน"),
    # Arabic, with and without vowel marks.
    Pair("ar-1", "يجب تقديم طلب الإجازة قبل أسبوعين.", "طلب الإجازة"),
    Pair("ar-2", "تقع قاعة الاجتماعات في الطابق الثاني.", "الاجتماعات"),
    Pair("ar-3", "كلمة المرور تتغير كل ثلاثة أشهر.", "كلمة المرور"),
    Pair("ar-4", "عقد الإيجار محفوظ في الأرشيف.", "عقد"),
    # Hebrew.
    Pair("he-1", "יש להגיש בקשת חופשה שבועיים מראש.", "בקשת חופשה"),
    Pair("he-2", "חדר הישיבות נמצא בקומה השנייה.", "חדר הישיבות"),
    Pair("he-3", "הסיסמה מוחלפת כל שלושה חודשים.", "הסיסמה"),
    # Hindi.
    Pair("hi-1", "छुट्टी का आवेदन दो सप्ताह पहले दें।", "छुट्टी"),
    Pair("hi-2", "बैठक कक्ष दूसरी मंजिल पर है।", "बैठक कक्ष"),
    Pair("hi-3", "पासवर्ड हर तीन महीने में बदलें।", "पासवर्ड"),
    # Turkish, with its dotted and undotted i.
    Pair("tr-1", "İzin başvurusu iki hafta önce yapılır.", "izin"),
    Pair("tr-2", "Toplantı odası ikinci kattadır.", "toplantı"),
    Pair("tr-3", "Şifreler üç ayda bir değiştirilir.", "şifreler"),
    Pair("tr-4", "DİKKAT: kapı saat altıda kilitlenir.", "dikkat kapı"),
    # Russian, Ukrainian and Greek.
    Pair("ru-1", "Договор поставки подписывают до пятого числа.", "договоры поставки"),
    Pair("ru-2", "Отпуск согласуется с руководителем.", "отпуск"),
    Pair("ru-3", "Ёлка стоит в холле до января.", "ёлка"),
    Pair("uk-1", "Заява на відпустку подається за два тижні.", "відпустку"),
    Pair("el-1", "Η αίτηση άδειας υποβάλλεται δύο εβδομάδες πριν.", "αίτηση άδειας"),
    Pair("el-2", "ΠΡΟΣΟΧΗ: Η πόρτα κλειδώνει στις έξι.", "προσοχή"),
    # German: umlauts, ß, compounds and inflection.
    Pair("de-1", "Die Reisekostenabrechnung ist bis Monatsende einzureichen.", "Reisekosten"),
    Pair("de-2", "Der Krankenversicherungsbeitrag steigt im Januar.", "Krankenversicherung"),
    Pair("de-3", "Die Straße vor dem Büro wird gesperrt.", "strasse"),
    Pair("de-4", "Überstunden werden mit Freizeit ausgeglichen.", "uberstunden"),
    Pair("de-5", "Die Häuser am Hafen wurden verkauft.", "Haus"),
    Pair("de-6", "Kündigungsfristen stehen im Arbeitsvertrag.", "Kündigungsfrist"),
    # French, Spanish, Portuguese, Polish, Czech, Vietnamese: accents typed or left out.
    Pair("fr-1", "Les congés payés se demandent à l'avance.", "conges payes"),
    Pair("fr-2", "L'élève a reçu une carte d'accès.", "eleve"),
    Pair("es-1", "La contraseña caduca cada año.", "contrasena"),
    Pair("pt-1", "A reunião começa às nove da manhã.", "reuniao"),
    Pair("pl-1", "Wniosek o zwrot kosztów składa się w księgowości.", "ksiegowosci"),
    Pair("cs-1", "Žádost o dovolenou schvaluje vedoucí.", "dovolenou"),
    Pair("vi-1", "Đơn xin nghỉ phép phải nộp trước hai tuần.", "nghỉ phép"),
    # One word in two Unicode forms, and in full width.
    Pair("nfd-1", "Le cafe\u0301 du rez-de-chausse\u0301e ferme a\u0300 midi.", "café"),
    Pair("nfd-2", "Die Pru\u0308fung beginnt um acht.", "Prüfung"),
    Pair("wide-1", "Ｋａｉｚｅｎ　ｍａｎｕａｌ　ｆｏｒ　ｎｅｗｃｏｍｅｒｓ", "kaizen newcomers"),
    # Scripts side by side.
    Pair("mix-1", "新しいVPNの設定はIT部門に聞いてください。", "VPN 設定"),
    Pair("mix-2", "请把 invoice INV-8891 发给财务部。", "INV-8891"),
    Pair("mix-3", "Das Meeting mit 上海 ist um 9 Uhr.", "上海 meeting"),
]
